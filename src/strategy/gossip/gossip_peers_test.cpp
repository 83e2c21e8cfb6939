#include "strategy/gossip/gossip_peers.h"

#include <gtest/gtest.h>

#include <set>

namespace thinwire::strategy {
namespace {

constexpr PeerRule kRules[] = {PeerRule::random, PeerRule::ring, PeerRule::exp};

TEST(GossipPeers, AreOthers) {
  for (const PeerRule rule : kRules) {
    for (const bool mutual : {false, true}) {
      for (int size = 2; size < 35; ++size) {
        for (int rank = 0; rank < size; ++rank) {
          for (std::uint64_t turn = 0; turn < 12; ++turn) {
            const int peer = gossip_peer(rule, mutual, 1, turn, rank, size);
            ASSERT_TRUE(peer >= 0 && peer < size && peer != rank) << peer << " of " << size;
          }
        }
      }
    }
  }
}

TEST(GossipPeers, OfPairsChooseEachOther) {
  for (const PeerRule rule : kRules) {
    for (const int size : {2, 4, 8, 16}) {
      for (std::uint64_t turn = 0; turn < 20; ++turn) {
        for (int rank = 0; rank < size; ++rank) {
          const int peer = gossip_peer(rule, true, 3, turn, rank, size);
          EXPECT_EQ(gossip_peer(rule, true, 3, turn, peer, size), rank) << size << " " << turn;
        }
      }
    }
  }
}

TEST(GossipPeers, AreAllRanksOrTheNeighbours) {
  std::set<int> random, exponential, ring;
  for (std::uint64_t turn = 0; turn < 200; ++turn) {
    random.insert(gossip_peer(PeerRule::random, false, 1, turn, 3, 8));
    exponential.insert(gossip_peer(PeerRule::exp, false, 1, turn, 3, 8));
    ring.insert(gossip_peer(PeerRule::ring, false, 1, turn, 3, 8));
  }
  EXPECT_EQ(random.size(), 7u);
  EXPECT_EQ(exponential, (std::set<int>{4, 5, 7}));
  EXPECT_EQ(ring, (std::set<int>{4}));
}

}  // namespace
}  // namespace thinwire::strategy
