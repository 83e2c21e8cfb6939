#include "tests/faults/inject.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace thinwire::faults {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// Returns the rank that a launcher assigned to this process.
std::optional<int> rank_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid));
  std::optional<int> rank;
  for (std::string line; std::getline(file, line, '\0');) {
    for (const std::string_view name : {"RANK=", "OMPI_COMM_WORLD_RANK="}) {
      if (line.starts_with(name)) rank = std::stoi(line.substr(name.size()));
    }
  }
  return rank;
}

// A line of /proc/net/tcp or /proc/net/tcp6.
struct Connection {
  std::uint16_t local = 0, remote = 0;
  unsigned state = 0;
  std::uint64_t inode = 0;
};
constexpr unsigned kEstablished = 1, kListening = 10;

std::vector<Connection> connections() {
  std::vector<Connection> out;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // names of the columns
    while (std::getline(file, line)) {
      Connection c;
      unsigned local = 0, remote = 0;
      unsigned long inode = 0;
      if (std::sscanf(line.c_str(), " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%x %x %*s %*s %*s %*s %*s %lu",
                      &local, &remote, &c.state, &inode) != 4) {
        continue;
      }
      c.local = static_cast<std::uint16_t>(local);
      c.remote = static_cast<std::uint16_t>(remote);
      c.inode = inode;
      out.push_back(c);
    }
  }
  return out;
}

// Returns the open sockets of a process: inode -> descriptor.
std::map<std::uint64_t, int> sockets_of(pid_t pid) {
  std::map<std::uint64_t, int> out;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), gone)) {
    const std::string target = fs::read_symlink(entry.path(), gone);
    std::uint64_t inode = 0;
    if (std::sscanf(target.c_str(), "socket:[%lu]", &inode) == 1) {
      out[inode] = std::stoi(entry.path().filename());
    }
  }
  return out;
}

void shut_down(pid_t pid, int descriptor) {
  const base::UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process) fail("pidfd_open");
  const base::UniqueFd ours(
      static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), descriptor, 0)));
  if (!ours) fail("pidfd_getfd");
  shutdown(ours.get(), SHUT_RDWR);
}

}  // namespace

Ranks ranks_of(const test::ChildProcess& run) {
  Ranks ranks;
  for (const pid_t pid : run.running()) {
    if (const auto rank = rank_of(pid)) ranks[*rank] = pid;
  }
  return ranks;
}

RankProcesses::RankProcesses(const Ranks& ranks) {
  for (const auto& [rank, pid] : ranks) {
    base::UniqueFd handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (handle) {
      handles_.push_back(std::move(handle));
    } else if (errno != ESRCH) {
      fail("pidfd_open");
    }
  }
}

int RankProcesses::ended() const {
  std::vector<pollfd> events;
  for (const base::UniqueFd& handle : handles_) events.push_back({handle.get(), POLLIN, 0});
  return std::max(0, poll(events.data(), events.size(), 0));
}

Resources resources_of(const Ranks& ranks) {
  Resources out;
  const std::vector<Connection> all = connections();
  for (const auto& [rank, pid] : ranks) {
    const auto sockets = sockets_of(pid);
    for (const Connection& c : all) {
      if (c.state == kListening && sockets.contains(c.inode)) out.listening[c.inode] = c.local;
    }
    std::ifstream maps(fmt::format("/proc/{}/maps", pid));
    for (std::string line; std::getline(maps, line);) {
      const std::size_t path = line.find("/dev/shm/");
      unsigned long inode = 0;
      if (path == std::string::npos) continue;
      if (std::sscanf(line.c_str(), "%*s %*s %*s %*s %lu", &inode) != 1) continue;
      out.shared_memory[line.substr(path)] = inode;
    }
  }
  return out;
}

Resources still_there(const Resources& before) {
  Resources out;
  for (const Connection& c : connections()) {
    if (c.state == kListening && before.listening.contains(c.inode)) {
      out.listening[c.inode] = c.local;
    }
  }
  for (const auto& [file, inode] : before.shared_memory) {
    struct stat now {};
    if (stat(file.c_str(), &now) == 0 && now.st_ino == inode) out.shared_memory[file] = inode;
  }
  return out;
}

std::set<int> close_connection(const Ranks& ranks, int victim, std::uint32_t choice) {
  struct End {
    int rank, descriptor;
  };
  std::map<std::pair<std::uint16_t, std::uint16_t>, End> ends;  // by local and remote port
  const std::vector<Connection> all = connections();
  for (const auto& [rank, pid] : ranks) {
    const auto sockets = sockets_of(pid);
    for (const Connection& c : all) {
      const auto socket = sockets.find(c.inode);
      if (c.state != kEstablished || socket == sockets.end()) continue;
      ends[{c.local, c.remote}] = {rank, socket->second};
    }
  }
  std::vector<std::pair<End, int>> candidates;  // with the rank at the other end
  for (const auto& [ports, end] : ends) {
    const auto other = ends.find({ports.second, ports.first});
    if (end.rank == victim && other != ends.end()) candidates.push_back({end, other->second.rank});
  }
  if (candidates.empty()) throw std::runtime_error("the victim has no connection to a worker");
  const auto& [end, other] = candidates[choice % candidates.size()];
  shut_down(ranks.at(victim), end.descriptor);
  return {victim, other};
}

DiskFiller::DiskFiller(const fs::path& directory, std::uint64_t room)
    : file_(directory / "filler"),
      room_(room),
      fd_(open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {
  if (!fd_) fail(file_);
  fill();
}

void DiskFiller::fill() {
  // This is repeated if the workers have used some of the space meanwhile, because posix_fallocate
  // takes all or nothing.
  for (int error = ENOSPC; error == ENOSPC;) {
    struct statvfs disk {};
    if (fstatvfs(fd_.get(), &disk) != 0) fail("fstatvfs");
    const std::uint64_t free_bytes = disk.f_bavail * disk.f_frsize;
    if (free_bytes <= room_) return;
    const std::uint64_t more = free_bytes - room_;
    error = posix_fallocate(fd_.get(), static_cast<off_t>(taken_), static_cast<off_t>(more));
    if (error == 0) taken_ += more;
  }
}

DiskFiller::~DiskFiller() {
  fd_.reset();
  std::error_code ignored;
  fs::remove(file_, ignored);
}

SmallDisk::SmallDisk(fs::path directory, std::uint64_t bytes) : directory_(std::move(directory)) {
  if (unshare(CLONE_NEWNS) != 0) return;
  const std::string size = fmt::format("size={}", bytes);
  mounted_ = mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
             mount("thinwire", directory_.c_str(), "tmpfs", 0, size.c_str()) == 0;
}

SmallDisk::~SmallDisk() {
  if (mounted_) umount2(directory_.c_str(), MNT_DETACH);
}

}  // namespace thinwire::faults
