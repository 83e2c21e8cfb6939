// Finds a TCP port of the loopback interface on which no process listens.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <stdexcept>

#include "base/unique_fd.h"

namespace thinwire::test {

inline std::uint16_t free_port() {
  const base::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const place = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd.get(), place, length) != 0 || getsockname(fd.get(), place, &length) != 0) {
    throw std::runtime_error("no free port on the loopback");
  }
  return ntohs(address.sin_port);
}

}  // namespace thinwire::test
