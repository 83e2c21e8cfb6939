#include "fuzz/rendezvous_peer.h"

#include <sys/socket.h>

#include "fuzz/target.h"
#include "rendezvous/server.h"

namespace thinwire::fuzz {
namespace {

Payload start(rendezvous::RendezvousMessage kind) { return {static_cast<std::byte>(kind)}; }

}  // namespace

void introduce(const rendezvous::Socket& client, std::uint32_t rank) {
  const rendezvous::Deadline deadline = rendezvous::deadline_in(kPatience);
  const rendezvous::Nonce nonce{};
  Payload hello = start(rendezvous::RendezvousMessage::hello);
  base::ByteWriter writer(hello);
  writer.put(rendezvous::kProtocolMagic);
  writer.put(rendezvous::kProtocolVersion);
  writer.put(Bytes(nonce));
  rendezvous::send_frame(client, hello, deadline);

  rendezvous::FrameReader frames(rendezvous::kLongestHello);
  const auto answer = rendezvous::read_frame(client, frames, deadline);
  demand(answer.has_value());
  base::ByteReader reader(answer->subspan(1), "challenge");
  const auto masters_nonce = rendezvous::take_array<rendezvous::Nonce>(reader);
  Payload claims, message = start(rendezvous::RendezvousMessage::present);
  base::ByteWriter claim(claims);
  claim.put(rank);
  claim.put(std::uint32_t{2});
  claim.put_text("host");
  base::ByteWriter(message).put(
      Bytes(prove(kToken, rendezvous::Role::rank, {nonce, masters_nonce, claims})));
  base::ByteWriter(message).put(Bytes(claims));
  rendezvous::send_frame(client, message, deadline);
}

void challenge(const rendezvous::Socket& rank) {
  const rendezvous::Deadline deadline = rendezvous::deadline_in(kPatience);
  rendezvous::FrameReader frames(rendezvous::kLongestHello);
  const auto hello = rendezvous::read_frame(rank, frames, deadline);
  demand(hello.has_value());
  const Bytes nonce = hello->last(sizeof(rendezvous::Nonce));
  const rendezvous::Nonce own{};
  Payload message = start(rendezvous::RendezvousMessage::challenge);
  base::ByteWriter(message).put(Bytes(own));
  base::ByteWriter(message).put(Bytes(prove(kToken, rendezvous::Role::master, {nonce, own})));
  rendezvous::send_frame(rank, message, deadline);
}

void send_all(const rendezvous::Socket& socket, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

void end_of_sending(const rendezvous::Socket& socket) { shutdown(socket.fd(), SHUT_WR); }

bool read_to_end(const rendezvous::Socket& socket) {
  const rendezvous::Deadline deadline = rendezvous::deadline_in(kPatience);
  std::byte chunk[4096];
  bool ended = false;
  while (!ended && rendezvous::wait_readable(socket, deadline)) {
    const ssize_t got = recv(socket.fd(), chunk, sizeof chunk, 0);
    ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  }
  const linger at_once{1, 0};
  setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  return ended;
}

}  // namespace thinwire::fuzz
