#include <algorithm>

#include "fuzz/rendezvous_peer.h"
#include "fuzz/target.h"
#include "rendezvous/server.h"

namespace thinwire::fuzz {
namespace {

enum class Guest { stranger, member, last_member };

// Reads the server's messages until one of these kinds arrives.
void hear(const rendezvous::Socket& rank, rendezvous::FrameReader& frames,
          std::initializer_list<rendezvous::RendezvousMessage> kinds) {
  const rendezvous::Deadline deadline = rendezvous::deadline_in(kPatience);
  while (true) {
    const auto message = rendezvous::read_frame(rank, frames, deadline);
    demand(message.has_value());
    if (std::ranges::find(kinds, static_cast<rendezvous::RendezvousMessage>(message->front())) !=
        kinds.end())
      return;
  }
}

}  // namespace

// Any bytes that a client sends to rank 0, with or without the token, before or after the group is
// complete, end only that connection; the other rank is notified if a member was lost.
void rendezvous_server(Bytes input) {
  Choices choices(input);
  const auto role = static_cast<Guest>(choices.below(3));
  rendezvous::Socket listener = rendezvous::listen_at("127.0.0.1", 0);
  const std::uint16_t port = rendezvous::port_of(listener);
  rendezvous::RendezvousRules rules{2, std::string(kToken), Seconds(30)};
  const rendezvous::RendezvousServer server(std::move(listener), rules);

  rendezvous::Socket other;
  if (role == Guest::last_member) {
    other = rendezvous::connect_to("127.0.0.1", port, rendezvous::deadline_in(kPatience));
    introduce(other, 0);
  }
  const rendezvous::Socket guest =
      rendezvous::connect_to("127.0.0.1", port, rendezvous::deadline_in(kPatience));
  if (role != Guest::stranger) introduce(guest);
  rendezvous::FrameReader frames(rendezvous::kLongestMessage);
  if (other) hear(other, frames, {rendezvous::RendezvousMessage::welcome});
  send_all(guest, choices.rest());
  end_of_sending(guest);
  demand(read_to_end(guest));
  if (other)
    hear(other, frames, {rendezvous::RendezvousMessage::left, rendezvous::RendezvousMessage::lost});
}

}  // namespace thinwire::fuzz
