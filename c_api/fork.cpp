#include "c_api/fork.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>

namespace thinwire::c_api {
namespace {

// The address of one end of a TCP connection. An IPv4 address is mapped to IPv6.
struct Endpoint {
  std::array<std::uint8_t, 16> host{};
  std::uint16_t port = 0;  // 0: there is none

  bool any_host() const noexcept {  // 0.0.0.0 or ::
    return std::all_of(host.begin(), host.begin() + 10, [](auto byte) { return byte == 0; }) &&
           std::all_of(host.begin() + 12, host.end(), [](auto byte) { return byte == 0; });
  }
};

// One group. It has no mutex: a thread of the parent could hold it when the child is forked.
struct Entry {
  enum State : int { free, being_written, valid };
  std::atomic<int> state{free};
  std::uint16_t port = 0;
  bool listens = false;           // this process is rank 0
  bool at_all_addresses = false;  // then: it listens at all addresses of the machine
  bool unresolved = false;        // the host could not be resolved, so the port has to suffice
  std::size_t hosts = 0;
  std::array<std::array<std::uint8_t, 16>, 8> host{};  // the first `hosts` addresses of rank 0

  void add(const Endpoint& endpoint) noexcept {
    if (endpoint.port != 0 && hosts < host.size()) host[hosts++] = endpoint.host;
  }
  bool has(const Endpoint& endpoint) const noexcept {
    if (endpoint.port != port) return false;
    return unresolved ||
           std::find(host.begin(), host.begin() + static_cast<std::ptrdiff_t>(hosts),
                     endpoint.host) != host.begin() + static_cast<std::ptrdiff_t>(hosts);
  }
};
std::array<Entry, 64> entries{};
std::atomic<pid_t> owner{0};  // the process that joined the last group
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

Endpoint endpoint_of(const sockaddr* address) noexcept {
  Endpoint out;
  if (address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    out.host[10] = out.host[11] = 0xff;
    std::memcpy(out.host.data() + 12, &v4.sin_addr, 4);
    out.port = ntohs(v4.sin_port);
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, address, sizeof v6);
    std::memcpy(out.host.data(), &v6.sin6_addr, 16);
    out.port = ntohs(v6.sin6_port);
  }
  return out;
}

// Returns no port if it is no TCP socket, or not connected.
using GetName = int (*)(int, sockaddr*, socklen_t*);
Endpoint endpoint_of(int descriptor, GetName get_name) noexcept {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* const pointer = reinterpret_cast<sockaddr*>(&address);
  return get_name(descriptor, pointer, &length) == 0 ? endpoint_of(pointer) : Endpoint{};
}

bool leads_to_rank_0(int descriptor) noexcept {
  const Endpoint peer = endpoint_of(descriptor, getpeername);
  const Endpoint own = endpoint_of(descriptor, getsockname);
  return std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) {
    if (entry.state != Entry::valid) return false;
    if (entry.has(peer)) return true;
    if (!entry.listens) return false;
    return entry.has(own) || (entry.at_all_addresses && own.port == entry.port);
  });
}

// Writes the addresses at which rank 0 can be reached.
void write_addresses(const JoinOptions& options, Entry& entry) noexcept {
  entry.port = options.master_port;
  entry.listens = options.rank == 0;
  entry.hosts = 0;
  entry.at_all_addresses = false;
  if (entry.listens && options.master_socket >= 0) {
    const Endpoint bound = endpoint_of(options.master_socket, getsockname);
    entry.add(bound);
    entry.at_all_addresses = bound.port != 0 && bound.any_host();
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const std::string port = std::to_string(options.master_port);
  entry.unresolved = getaddrinfo(options.master_host.c_str(), port.c_str(), &hints, &found) != 0;
  if (entry.unresolved) return;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    const Endpoint endpoint = endpoint_of(address->ai_addr);
    entry.add(endpoint);
    if (entry.listens && options.master_socket < 0 && endpoint.any_host()) {
      entry.at_all_addresses = true;
    }
  }
  freeaddrinfo(found);
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

MasterAddress::MasterAddress(const JoinOptions& options) noexcept {
  owner = getpid();
  if (options.size == 1) return;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    int expected = Entry::free;
    if (!entries[i].state.compare_exchange_strong(expected, Entry::being_written)) continue;
    write_addresses(options, entries[i]);
    entries[i].state = Entry::valid;
    slot_ = static_cast<int>(i);
    return;
  }
}

MasterAddress::~MasterAddress() {
  if (slot_ >= 0) entries[static_cast<std::size_t>(slot_)].state = Entry::free;
}

bool owns_groups() noexcept { return owner == getpid(); }

void close_group_connections() noexcept {
  // opendir() allocates, so the directory is read by the system call below it.
  const int directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  alignas(dirent64) char names[4096];
  long bytes = 0;
  while ((bytes = syscall(SYS_getdents64, directory, names, sizeof names)) > 0) {
    for (long at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(names + at);
      at += entry->d_reclen;
      const int descriptor = number_of(entry->d_name);
      if (descriptor >= 0 && leads_to_rank_0(descriptor)) close(descriptor);
    }
  }
  close(directory);
}

}  // namespace thinwire::c_api
