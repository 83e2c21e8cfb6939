#include "thinwire/types.h"

#include <cmath>

#include "fuzz/target.h"

namespace thinwire::fuzz {

void network_text(Bytes input) {
  accept_or_refuse<ConfigError>([&] {
    const Network network = Network::parse(Choices(input).text());
    demand(std::isfinite(network.bits_per_second) && network.bits_per_second >= 0);
    demand(std::isfinite(network.latency.count()) && network.latency.count() >= 0);
    Network::parse(network.str());
  });
}

}  // namespace thinwire::fuzz
