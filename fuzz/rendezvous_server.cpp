#include <algorithm>

#include "fuzz/rendezvous_peer.h"
#include "fuzz/target.h"
#include "rendezvous/server.h"

namespace thinwire::fuzz {
namespace {

enum class ClientRole { stranger, member, last_member };

// Reads the server's messages until one of these kinds arrives.
void read_until(const rendezvous::Socket& rank, rendezvous::FrameReader& frames,
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
  const auto role = static_cast<ClientRole>(choices.below(3));
  rendezvous::Socket listener = rendezvous::listen_at("127.0.0.1", 0);
  const std::uint16_t port = rendezvous::port_of(listener);
  rendezvous::RendezvousRules rules{2, std::string(kToken), Seconds(30)};
  const rendezvous::RendezvousServer server(std::move(listener), rules);

  rendezvous::Socket other;
  if (role == ClientRole::last_member) {
    other = rendezvous::connect_to("127.0.0.1", port, rendezvous::deadline_in(kPatience));
    introduce(other, 0);
  }
  const rendezvous::Socket client =
      rendezvous::connect_to("127.0.0.1", port, rendezvous::deadline_in(kPatience));
  if (role != ClientRole::stranger) introduce(client);
  rendezvous::FrameReader frames(rendezvous::kLongestMessage);
  if (other) read_until(other, frames, {rendezvous::RendezvousMessage::welcome});
  send_all(client, choices.rest());
  end_of_sending(client);
  demand(read_to_end(client));
  if (other)
    read_until(other, frames,
               {rendezvous::RendezvousMessage::left, rendezvous::RendezvousMessage::lost});
}

}  // namespace thinwire::fuzz
