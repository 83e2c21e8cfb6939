// A TCP port of the loopback that nobody listens on.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>

namespace thinwire::test {

inline std::uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const place = reinterpret_cast<sockaddr*>(&address);
  const bool found = bind(fd, place, length) == 0 && getsockname(fd, place, &length) == 0;
  close(fd);
  if (!found) throw std::runtime_error("no free port on the loopback");
  return ntohs(address.sin_port);
}

}  // namespace thinwire::test
