#include "fuzz/meeting.h"

#include <sys/socket.h>

#include "fuzz/target.h"
#include "transport/rendezvous.h"

namespace thinwire::fuzz {
namespace {

Payload start(Meeting kind) { return {static_cast<std::byte>(kind)}; }

}  // namespace

void introduce(const Socket& guest, std::uint32_t rank) {
  const Deadline deadline = deadline_in(kPatience);
  const Nonce nonce{};
  Payload hello = start(Meeting::hello);
  ByteWriter writer(hello);
  writer.put(kMeetingMagic);
  writer.put(kMeetingVersion);
  writer.put(Bytes(nonce));
  send_frame(guest, hello, deadline);

  FrameReader frames(kLongestHello);
  const auto answer = read_frame(guest, frames, deadline);
  demand(answer.has_value());
  ByteReader reader(answer->subspan(1), "challenge");
  const auto masters_nonce = take_array<Nonce>(reader);
  Payload claims, message = start(Meeting::present);
  ByteWriter claim(claims);
  claim.put(rank);
  claim.put(std::uint32_t{2});
  claim.put_text("host");
  ByteWriter(message).put(Bytes(prove(kToken, Prover::rank, {nonce, masters_nonce, claims})));
  ByteWriter(message).put(Bytes(claims));
  send_frame(guest, message, deadline);
}

void challenge(const Socket& rank) {
  const Deadline deadline = deadline_in(kPatience);
  FrameReader frames(kLongestHello);
  const auto hello = read_frame(rank, frames, deadline);
  demand(hello.has_value());
  const Bytes nonce = hello->last(sizeof(Nonce));
  const Nonce own{};
  Payload message = start(Meeting::challenge);
  ByteWriter(message).put(Bytes(own));
  ByteWriter(message).put(Bytes(prove(kToken, Prover::master, {nonce, own})));
  send_frame(rank, message, deadline);
}

void send_all(const Socket& socket, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

void end_of_sending(const Socket& socket) { shutdown(socket.fd(), SHUT_WR); }

bool read_to_end(const Socket& socket) {
  const Deadline deadline = deadline_in(kPatience);
  std::byte chunk[4096];
  bool ended = false;
  while (!ended && wait_readable(socket, deadline)) {
    const ssize_t got = recv(socket.fd(), chunk, sizeof chunk, 0);
    ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  }
  const linger at_once{1, 0};
  setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  return ended;
}

}  // namespace thinwire::fuzz
