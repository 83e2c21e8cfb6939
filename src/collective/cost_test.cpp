#include "collective/cost.h"

#include <gtest/gtest.h>

#include "collective/butterfly.h"
#include "testing/ranks.h"

namespace thinwire::collective {
namespace {

constexpr std::size_t kKiB = 1024;

TEST(Cost, ChunksAreBetweenTheirBoundsAndFourIfPossible) {
  EXPECT_EQ(chunk_count(0), 1u);
  EXPECT_EQ(chunk_count(1), 1u);
  EXPECT_EQ(chunk_count(128 * kKiB), 1u);
  EXPECT_EQ(chunk_count(128 * kKiB + 1), 2u);
  EXPECT_EQ(chunk_count(512 * kKiB), 4u);
  EXPECT_EQ(chunk_count(1536 * kKiB), 4u);
  EXPECT_EQ(chunk_count(2048 * kKiB), 4u);
  EXPECT_EQ(chunk_count(4096 * kKiB), 8u);
}

// The crossover points of docs/algorithms.md: the doubling is chosen up to `doubling` bytes, the
// ring from `ring` bytes on.
TEST(Cost, AutomaticPicksDoublingForSmallDataAndTheRingForLarge) {
  struct Crossing {
    int size;
    std::size_t doubling, ring;
  };
  for (const auto& [size, doubling, ring] : {Crossing{2, 262'000, 263'000},
                                             {3, 7'400, 7'600},
                                             {4, 99'000, 101'000},
                                             {8, 109'000, 111'000},
                                             {16, 170'000, 171'000},
                                             {32, 248'000, 250'000}}) {
    const auto pick = [p = size](std::size_t bytes) {
      return allreduce_route(Route::automatic, bytes, p);
    };
    EXPECT_EQ(pick(1), Route::doubling) << size;
    EXPECT_EQ(pick(doubling), Route::doubling) << size;
    EXPECT_EQ(pick(ring), Route::ring) << size;
    EXPECT_EQ(pick(100'000'000), Route::ring) << size;
    EXPECT_EQ(pick(100'000'004), Route::ring) << size;
    EXPECT_EQ(allreduce_route(Route::doubling, 100'000'000, size), Route::doubling);
    EXPECT_EQ(allreduce_route(Route::ring, 1, size), Route::ring);
  }
}

TEST(Cost, WireBoundStepsHideTheLatency) {
  const std::size_t share = 25'000'000;  // 100 MB among 4 ranks
  EXPECT_EQ(ring_time(share, 6), 6 * share + kLatency);
  EXPECT_EQ(ring_time(1000, 6), 6 * (1000 + kLatency));
  EXPECT_EQ(doubling_time(1000, 8), 3 * (1000 + kLatency));
  EXPECT_EQ(doubling_time(1000, 5), 4 * (1000 + kLatency));
  EXPECT_EQ(binomial_time(1000, 5), 3 * (1000 + kLatency));
}

TEST(Cost, SharesCoverEverythingOnceInOrder) {
  for (const int size : test::kGroupSizes) {
    for (const std::size_t n : {0u, 1u, 5u, 31u, 32u, 33u, 1000u}) {
      std::size_t at = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Share share = share_of(n, rank, size);
        EXPECT_EQ(share.begin, at);
        EXPECT_LE(share.size(), share_of(n, 0, size).size());
        EXPECT_GE(share.size() + 1, share_of(n, 0, size).size());
        at = share.end;
      }
      EXPECT_EQ(at, n);
    }
  }
}

// For every message that a rank sends, its peer expects one in the same round.
TEST(Butterfly, PeeringsArePairs) {
  for (int size = 1; size <= 40; ++size) {
    for (int round = 0; round < Butterfly(0, size).rounds(); ++round) {
      for (int rank = 0; rank < size; ++rank) {
        const Peering mine = Butterfly(rank, size).peering(round);
        if (mine.to != kNoRank) {
          EXPECT_EQ(Butterfly(mine.to, size).peering(round).from, rank);
        }
        if (mine.from != kNoRank) {
          EXPECT_EQ(Butterfly(mine.from, size).peering(round).to, rank);
        }
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::collective
