#include <algorithm>

#include "fuzz/meeting.h"
#include "fuzz/target.h"
#include "transport/rendezvous.h"

namespace thinwire::fuzz {
namespace {

enum class Guest { stranger, member, last_member };

// Reads the server's messages until one of these kinds comes.
void hear(const Socket& rank, FrameReader& frames, std::initializer_list<Meeting> kinds) {
  const Deadline deadline = deadline_in(kPatience);
  while (true) {
    const auto message = read_frame(rank, frames, deadline);
    demand(message.has_value());
    if (std::ranges::find(kinds, static_cast<Meeting>(message->front())) != kinds.end()) return;
  }
}

}  // namespace

// Whatever somebody sends to rank 0, with or without knowing the token, before or after the group
// is complete: it ends that connection and nothing else, and the other rank hears of it.
void meeting_server(Bytes input) {
  Choices choices(input);
  const auto role = static_cast<Guest>(choices.below(3));
  Socket listener = listen_at("127.0.0.1", 0);
  const std::uint16_t port = port_of(listener);
  MeetingRules rules{2, std::string(kToken), Seconds(30)};
  const RendezvousServer server(std::move(listener), rules);

  Socket other;
  if (role == Guest::last_member) {
    other = connect_to("127.0.0.1", port, deadline_in(kPatience));
    introduce(other, 0);
  }
  const Socket guest = connect_to("127.0.0.1", port, deadline_in(kPatience));
  if (role != Guest::stranger) introduce(guest);
  FrameReader frames(kLongestMeetingMessage);
  if (other) hear(other, frames, {Meeting::welcome});
  send_all(guest, choices.rest());
  end_of_sending(guest);
  demand(read_to_end(guest));
  if (other) hear(other, frames, {Meeting::left, Meeting::lost});
}

}  // namespace thinwire::fuzz
