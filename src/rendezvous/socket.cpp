#include "rendezvous/socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/bytes.h"

namespace thinwire::rendezvous {
namespace {

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

int check(int result, const char* what) {
  if (result < 0) fail(errno, what);
  return result;
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList resolve(const std::string& host, std::uint16_t port, int flags, int type) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = type;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    fail(EADDRNOTAVAIL,
         fmt::format("host name '{}': cannot be resolved ({})", host, gai_strerror(error)));
  }
  return {found, freeaddrinfo};
}

void set_option(const Socket& socket, int level, int option, int value) {
  check(setsockopt(socket.fd(), level, option, &value, sizeof value), "setsockopt");
}

// A machine that lost power does not close its connections. After 10 s of silence the kernel sends
// keep-alive probes, and closes the connection after three unanswered ones.
void watch_for_vanished_peer(const Socket& socket) {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

std::string numeric(const sockaddr_storage& address, socklen_t length) {
  char text[NI_MAXHOST];
  const int error = getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, text,
                                sizeof text, nullptr, 0, NI_NUMERICHOST);
  if (error != 0) fail(EADDRNOTAVAIL, gai_strerror(error));
  return text;
}

// IPv4 addresses are mapped to IPv6, so that one test of each kind is enough for both families.
in6_addr as_ipv6(const addrinfo& entry) {
  if (entry.ai_family == AF_INET6) {
    return reinterpret_cast<const sockaddr_in6*>(entry.ai_addr)->sin6_addr;
  }
  in6_addr mapped{};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  const in_addr& ipv4 = reinterpret_cast<const sockaddr_in*>(entry.ai_addr)->sin_addr;
  std::memcpy(&mapped.s6_addr[12], &ipv4, sizeof ipv4);
  return mapped;
}

// Returns whether all addresses of the host are of that kind.
template <class Test>
bool all_addresses(const std::string& host, Test test) {
  const AddressList addresses = resolve(host, 0, 0, SOCK_STREAM);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    if (!test(as_ipv6(*a))) return false;
  }
  return true;
}

bool wait_for(const Socket& socket, short events, Deadline deadline) {
  while (true) {
    pollfd entry{socket.fd(), events, 0};
    const int ready = poll(&entry, 1, milliseconds_left(deadline));
    if (ready > 0) return true;
    if (ready == 0 && milliseconds_left(deadline) == 0) return false;
    if (ready < 0 && errno != EINTR) fail(errno, "poll");
  }
}

}  // namespace

Deadline deadline_in(Seconds duration) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(duration);
}

int milliseconds_left(Deadline deadline) {
  const Seconds left = deadline - std::chrono::steady_clock::now();
  return left > Seconds(0) ? static_cast<int>(std::min(std::ceil(left.count() * 1e3), 1e9)) : 0;
}

Socket listen_at(const std::string& host, std::uint16_t port) {
  const AddressList addresses = resolve(host, port, AI_PASSIVE, SOCK_STREAM);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(socket.fd(), a->ai_addr, a->ai_addrlen) == 0 && listen(socket.fd(), 1024) == 0) {
      return socket;
    }
    error = errno;
  }
  fail(error, "listen");
}

std::uint16_t port_of(const Socket& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  check(getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)
             : ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string address_of(const Socket& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  check(getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
  return numeric(address, length);
}

Socket accept_from(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) watch_for_vanished_peer(socket);
  return socket;
}

std::string peer_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return "an unknown address";
  }
  return numeric(address, length);
}

Socket connect_to(const std::string& host, std::uint16_t port, Deadline deadline) {
  const AddressList addresses = resolve(host, port, 0, SOCK_STREAM);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    error = 0;
    if (connect(socket.fd(), a->ai_addr, a->ai_addrlen) != 0) error = errno;
    if (error == EINPROGRESS) {
      error = ETIMEDOUT;
      if (wait_for(socket, POLLOUT, deadline)) {
        socklen_t length = sizeof error;
        check(getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length), "getsockopt");
      }
    }
    if (error == 0) {
      watch_for_vanished_peer(socket);
      return socket;
    }
  }
  fail(error, "connect");
}

bool is_loopback(const std::string& host) {
  return all_addresses(host, [](const in6_addr& address) {
    return IN6_IS_ADDR_LOOPBACK(&address) ||
           (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
  });
}

bool is_wildcard(const std::string& host) {
  return all_addresses(host, [](const in6_addr& address) {
    constexpr in6_addr kAny4{{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}}};
    return IN6_IS_ADDR_UNSPECIFIED(&address) || IN6_ARE_ADDR_EQUAL(&address, &kAny4);
  });
}

std::string local_address_towards(const std::string& host) {
  // Connecting a datagram socket sends nothing, but makes the kernel choose the route.
  const AddressList addresses = resolve(host, 9, 0, SOCK_DGRAM);
  const Socket socket(::socket(addresses->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  check(connect(socket.fd(), addresses->ai_addr, addresses->ai_addrlen), "no route");
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  check(getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&local), &length), "getsockname");
  return numeric(local, length);
}

void send_frame(const Socket& socket, Bytes message, Deadline deadline) {
  Payload frame;
  base::ByteWriter writer(frame);
  writer.put(static_cast<std::uint32_t>(message.size()));
  writer.put(message);
  for (Bytes rest = frame; !rest.empty();) {
    const ssize_t sent = send(socket.fd(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest = rest.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket, POLLOUT, deadline)) fail(ETIMEDOUT, "send");
    } else if (errno != EINTR) {
      fail(errno, "send");
    }
  }
}

bool FrameReader::fill(const Socket& socket) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  std::byte chunk[16384];
  // Reads no more than one frame, so that a peer that sends faster than this side reads cannot fill
  // its memory.
  while (buffer_.size() < sizeof(std::uint32_t) + longest_) {
    const ssize_t got = recv(socket.fd(), chunk, sizeof chunk, 0);
    if (got > 0) {
      buffer_.insert(buffer_.end(), chunk, chunk + got);
      if (static_cast<std::size_t>(got) < sizeof chunk) return true;
    } else if (got < 0 && errno == EAGAIN) {
      return true;
    } else if (got == 0 || errno != EINTR) {
      return false;  // the end of the stream; a reset by the peer counts as the end, too
    }
  }
  return true;
}

std::optional<Bytes> FrameReader::next() {
  const Bytes rest = Bytes(buffer_).subspan(begin_);
  if (rest.size() < sizeof(std::uint32_t)) return std::nullopt;
  const auto length = base::ByteReader(rest, "frame").get<std::uint32_t>();
  if (length > longest_) {
    throw WireError(fmt::format("frame: too long ({} bytes; at most {})", length, longest_));
  }
  if (rest.size() - sizeof length < length) return std::nullopt;
  begin_ += sizeof length + length;
  return rest.subspan(sizeof length, length);
}

bool wait_readable(const Socket& socket, Deadline deadline) {
  return wait_for(socket, POLLIN, deadline);
}

std::optional<Bytes> read_frame(const Socket& socket, FrameReader& reader, Deadline deadline) {
  while (true) {
    if (const auto frame = reader.next()) return frame;
    if (!wait_readable(socket, deadline)) return std::nullopt;
    if (!reader.fill(socket)) {
      if (const auto frame = reader.next()) return frame;
      throw WireError("rendezvous: the connection was closed");
    }
  }
}

}  // namespace thinwire::rendezvous
