// Chooses the address of this machine that the other workers use.
#pragma once

#include <string>

#include "thinwire/launch.h"

namespace thinwire::rendezvous {

// Returns the address to listen on: that of the wanted interface or, if `wanted` is empty, the one
// from which packets to the master are sent. So neither loopback in /etc/hosts nor a Docker bridge
// is chosen by accident. `wanted` is the name of an interface, a comma-separated list of names (the
// first that exists here is used, as in GLOO_SOCKET_IFNAME), or an address of this machine. Throws
// ConfigError, which lists the interfaces, if none matches.
std::string address_for_peers(const std::string& wanted, const std::string& master_host);

// Called before this machine listens at `host` or connects to it. Throws ConfigError if there is no
// token although other machines can reach `host`, or if `host` stands for all addresses of a
// machine.
void require_token(const JoinOptions& options, const std::string& host);

// Called before rank 0 listens at `address`. Throws ConfigError if the options name an interface
// and `address` is reachable from other machines, but does not belong to that interface.
void require_interface(const JoinOptions& options, const std::string& address);

}  // namespace thinwire::rendezvous
