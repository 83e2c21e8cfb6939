// TCP as the rendezvous uses it: sockets that close themselves, deadlines on every wait, and
// messages framed by their length.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "thinwire/types.h"

namespace thinwire::rendezvous {

using Deadline = std::chrono::steady_clock::time_point;
Deadline deadline_in(Seconds duration);
// Returns the milliseconds left, rounded up, for poll(2); 0 if the deadline has passed.
int milliseconds_left(Deadline deadline);

// Owns a socket; empty if constructed without one or after release() or close().
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) noexcept : fd_(fd) {}

  int fd() const noexcept { return fd_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  [[nodiscard]] int release() noexcept { return fd_.release(); }
  void close() noexcept { fd_.reset(); }

 private:
  base::UniqueFd fd_;
};

// The functions below throw std::system_error.

// Listens at the first address of `host` (a name or an address) that is one of this machine.
Socket listen_at(const std::string& host, std::uint16_t port);
std::uint16_t port_of(const Socket& listener);
std::string address_of(const Socket& listener);
Socket accept_from(const Socket& listener);  // empty if no connection waits
// Returns the address of the peer, or "an unknown address" if the connection is closed.
std::string peer_of(const Socket& socket);

// Connects; tries once. Keep-alive probes detect a peer whose machine has lost power or its
// network.
Socket connect_to(const std::string& host, std::uint16_t port, Deadline deadline);

// Returns whether `host` is this machine under addresses that no other machine can reach.
bool is_loopback(const std::string& host);
// Returns whether `host` stands for all addresses of a machine, such as 0.0.0.0.
bool is_wildcard(const std::string& host);

// Returns the address of this machine from which packets to `host` are sent.
std::string local_address_towards(const std::string& host);

// Sends a frame: the length of the message (u32, little-endian) and its bytes.
void send_frame(const Socket& socket, Bytes message, Deadline deadline);

// Collects frames from a socket as bytes arrive.
class FrameReader {
 public:
  // next() throws WireError if a frame is longer than this.
  explicit FrameReader(std::size_t longest) : longest_(longest) {}
  void allow(std::size_t longest) { longest_ = longest; }

  // Reads the bytes that have arrived, without waiting, up to the longest frame. Returns false at
  // the end of the stream.
  bool fill(const Socket& socket);
  // Returns the next frame if all of it has arrived. It is valid until the next fill().
  std::optional<Bytes> next();

 private:
  std::size_t longest_;
  Payload buffer_;
  std::size_t begin_ = 0;  // the start of the first frame that next() has not returned
};

// Waits for the next frame. Returns nothing if the deadline passes; throws WireError at the end of
// the stream.
std::optional<Bytes> read_frame(const Socket& socket, FrameReader& reader, Deadline deadline);

// Waits until the socket has bytes or has ended. Returns false if the deadline passes first.
bool wait_readable(const Socket& socket, Deadline deadline);

}  // namespace thinwire::rendezvous
