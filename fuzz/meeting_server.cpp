#include "fuzz/meeting.h"
#include "fuzz/target.h"
#include "transport/rendezvous.h"

namespace thinwire::fuzz {

// Whatever somebody sends to rank 0, with or without knowing the token, it ends that connection and
// nothing else.
void meeting_server(Bytes input) {
  Choices choices(input);
  const bool member = choices.below(2) == 1;
  Socket listener = listen_at("127.0.0.1", 0);
  const std::uint16_t port = port_of(listener);
  MeetingRules rules{2, std::string(kToken), Seconds(30)};
  const RendezvousServer server(std::move(listener), rules);

  const Socket guest = connect_to("127.0.0.1", port, deadline_in(kPatience));
  if (member) introduce(guest);
  send_all(guest, choices.rest());
  end_of_sending(guest);
  demand(read_to_end(guest));
}

}  // namespace thinwire::fuzz
