// Chooses the worker to which a worker sends its model.
#pragma once

#include <cstdint>

namespace thinwire::strategy {

enum class PeerRule {
  random,  // any other rank
  ring,    // a neighbour
  exp,     // one at distance 1, 2, 4, ... in turn (one-peer exponential graph)
};

// Returns the peer of exchange number `turn` of a worker. If exchanges are mutual, the choice is
// mutual, too, where the number of workers allows it: two workers that choose in the same turn
// choose each other, so that neither has to refuse a request of a third worker.
int gossip_peer(PeerRule rule, bool mutual, std::uint64_t seed, std::uint64_t turn, int rank,
                int size);

}  // namespace thinwire::strategy
