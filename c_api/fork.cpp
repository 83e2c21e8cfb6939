#include "c_api/fork.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace thinwire::c_api {
namespace {

// A process-wide table without a mutex: a thread of the parent could hold it when the child is
// forked. An entry is 0 if it is free, else the port * 2 + whether this process listens there.
std::array<std::atomic<std::uint32_t>, 64> ports{};
std::atomic<pid_t> owner{0};  // the process that made the last entry
static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<pid_t>::is_always_lock_free);

// Returns 0 if it is no TCP socket, or not connected.
using GetName = int (*)(int, sockaddr*, socklen_t*);
std::uint32_t port_of(int descriptor, GetName get_name) noexcept {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (get_name(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port);
  }
  return 0;
}

bool leads_to_rank_0(int descriptor) noexcept {
  const std::uint32_t peer = port_of(descriptor, getpeername);
  const std::uint32_t own = port_of(descriptor, getsockname);
  for (const auto& entry : ports) {
    const std::uint32_t value = entry;
    if (value == 0) continue;
    if (peer == value / 2 || (value % 2 == 1 && own == value / 2)) return true;
  }
  return false;
}

// Returns -1 unless the name is a number, as all but "." and ".." are in /proc/self/fd.
int number_of(const char* name) noexcept {
  int out = *name == '\0' ? -1 : 0;
  for (; *name != '\0'; ++name) {
    if (*name < '0' || *name > '9') return -1;
    out = out * 10 + (*name - '0');
  }
  return out;
}

}  // namespace

MasterPort::MasterPort(std::uint16_t port, bool listens) noexcept {
  owner = getpid();
  for (std::size_t i = 0; i < ports.size(); ++i) {
    std::uint32_t expected = 0;
    if (!ports[i].compare_exchange_strong(expected, port * 2u + (listens ? 1 : 0))) continue;
    slot_ = static_cast<int>(i);
    return;
  }
}

MasterPort::~MasterPort() {
  if (slot_ >= 0) ports[static_cast<std::size_t>(slot_)] = 0;
}

bool owns_groups() noexcept { return owner == getpid(); }

void close_group_connections() noexcept {
  // opendir() allocates, so the directory is read by the system call below it.
  const int directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  alignas(dirent64) char entries[4096];
  long bytes = 0;
  while ((bytes = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0) {
    for (long at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries + at);
      at += entry->d_reclen;
      const int descriptor = number_of(entry->d_name);
      if (descriptor >= 0 && leads_to_rank_0(descriptor)) close(descriptor);
    }
  }
  close(directory);
}

}  // namespace thinwire::c_api
