// Reserves a TCP port for a server that a test starts.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace thinwire::test {

// Reserves a port for one server of this test. The socket stays bound, so that the system does not
// give the port to a program that binds to any port. The server, which binds to this port, gets it:
// both set SO_REUSEADDR, and this socket never listens. A port that was only looked up and released
// could be taken by a parallel test before the server starts.
class ReservedPort {
 public:
  // Port 0 means any free port.
  explicit ReservedPort(const char* host = "127.0.0.1", std::uint16_t port = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    socklen_t length = sizeof address;
    auto* const place = reinterpret_cast<sockaddr*>(&address);
    const bool bound = inet_pton(AF_INET, host, &address.sin_addr) == 1 &&
                       setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                       bind(fd_, place, length) == 0 && getsockname(fd_, place, &length) == 0;
    if (!bound) {
      close(fd_);
      throw std::runtime_error(std::string("no free port at ") + host);
    }
    number_ = ntohs(address.sin_port);
    endpoint_ = std::string(host) + ":" + std::to_string(number_);
  }
  ~ReservedPort() { close(fd_); }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  std::uint16_t number() const noexcept { return number_; }
  const std::string& endpoint() const noexcept { return endpoint_; }  // "127.0.0.1:29500"

 private:
  int fd_;
  std::uint16_t number_ = 0;
  std::string endpoint_;
};

}  // namespace thinwire::test
