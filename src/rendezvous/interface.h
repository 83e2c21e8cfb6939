// Which of this machine's addresses the other workers should use.
#pragma once

#include <string>

#include "thinwire/launch.h"

namespace thinwire::rendezvous {

// The address to listen on: that of the interface asked for, or, if `wanted` is empty, the one from
// which packets to the master leave (so that neither loopback in /etc/hosts nor a Docker bridge is
// picked by accident). `wanted` is an interface name, a comma-separated list of names (the first
// that exists here counts, as in GLOO_SOCKET_IFNAME), or an address of this machine.
// ConfigError lists what exists.
std::string address_for_peers(const std::string& wanted, const std::string& master_host);

// Before this machine listens at `host`, or connects to it: ConfigError, saying how to make one, if
// there is no token and other machines can come there, or if `host` is no single address.
void require_token(const JoinOptions& options, const std::string& host);

// Before rank 0 serves at `address`: ConfigError if an interface was asked for, and other machines
// can come there by another one.
void require_interface(const JoinOptions& options, const std::string& address);

}  // namespace thinwire::rendezvous
