// Whom a gossip reaches.
#pragma once

#include <cstdint>

namespace thinwire::strategy {

enum class PeerRule {
  random,  // any other rank
  ring,    // a neighbour
  exp,     // one at distance 1, 2, 4, ... in turn (one-peer exponential graph)
};

// The peer of a worker's turn-th exchange. For exchanges of two the choice is mutual where the
// number of workers allows it: if both are in the same turn, each is the other's peer, and their
// requests meet instead of crossing those of others.
int gossip_peer(PeerRule rule, bool mutual, std::uint64_t seed, std::uint64_t turn, int rank,
                int size);

}  // namespace thinwire::strategy
