#include <thread>

#include "fuzz/rendezvous_peer.h"
#include "fuzz/target.h"
#include "rendezvous/membership.h"

namespace thinwire::fuzz {

// For any answers of a master, a rank joins or fails with a reason.
void rendezvous_client(Bytes input) {
  Choices choices(input);
  const bool proves = choices.below(2) == 1;
  const rendezvous::Socket listener = rendezvous::listen_at("127.0.0.1", 0);
  const std::jthread master([&] {
    if (!rendezvous::wait_readable(listener, rendezvous::deadline_in(kPatience))) return;
    const rendezvous::Socket rank = rendezvous::accept_from(listener);
    try {
      if (proves) challenge(rank);
      send_all(rank, choices.rest());
      end_of_sending(rank);
      read_to_end(rank);
    } catch (const std::exception&) {
      // The rank has failed and closed the connection.
    }
  });
  JoinOptions options;
  options.rank = 1;
  options.size = 2;
  options.token = kToken;
  options.master_port = rendezvous::port_of(listener);
  options.join_timeout = kPatience;
  accept_or_refuse<TransportError>([&] {
    rendezvous::Membership membership(options);
    demand(membership.hosts().size() == 2);
    membership.get("key", rendezvous::deadline_in(Seconds(0)));
  });
}

}  // namespace thinwire::fuzz
