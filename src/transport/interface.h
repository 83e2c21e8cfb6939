// Which of this machine's addresses the other workers should use.
#pragma once

#include <string>

namespace thinwire {

// The address to listen on: that of the interface asked for, or, if `wanted` is empty, the one from
// which packets to the master leave (so that neither loopback in /etc/hosts nor a Docker bridge is
// picked by accident). `wanted` is an interface name, a comma-separated list of names (the first
// that exists here counts, as in GLOO_SOCKET_IFNAME), or an address of this machine.
// ConfigError lists what exists.
std::string address_for_peers(const std::string& wanted, const std::string& master_host);

}  // namespace thinwire
