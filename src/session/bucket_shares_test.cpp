// The shares of buckets: they move entries to where gradients are large, keep their sum, and are
// part of a checkpoint.
#include "session/bucket_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "testing/toy_training.h"
#include "thinwire/error.h"
#include "thinwire/launch.h"

namespace thinwire::session {
namespace {

// Gradients whose magnitude falls as 1 / rank, times the scale of their bucket; the largest k are
// exchanged.
struct FallingGradients {
  explicit FallingGradients(std::size_t numel, float scale) : values(numel) {
    for (std::size_t i = 0; i < numel; ++i) values[i] = scale / static_cast<float>(i + 1);
  }
  Update largest(std::size_t k) {
    indices.resize(k);
    std::iota(indices.begin(), indices.end(), 0u);
    return Update::of(indices);
  }
  std::vector<float> values;
  std::vector<std::uint32_t> indices;
};

TEST(BucketShares, ReachOneThreshold) {
  constexpr std::size_t kNumel = 10'000;
  constexpr double kDensity = 0.01;
  FallingGradients small(kNumel, 1), large(kNumel, 4);
  BucketShares shares({kNumel, kNumel});
  std::size_t k[2] = {};
  for (int step = 0; step < 30; ++step) {
    for (std::size_t bucket : {0, 1}) {
      k[bucket] = static_cast<std::size_t>(kDensity * kNumel * shares.share(bucket));
    }
    shares.observe(0, small.values, small.largest(k[0]));
    shares.observe(1, large.values, large.largest(k[1]));
    shares.finish_step();
    EXPECT_NEAR(shares.share(0) + shares.share(1), 2, 2e-3);
  }
  // Of 1/i and 4/i above one threshold there are four times as many of the second kind.
  EXPECT_NEAR(static_cast<double>(k[1]) / static_cast<double>(k[0]), 4, 0.3);
}

TEST(BucketShares, StayWhereNothingIsKnown) {
  BucketShares shares({100, 100});
  std::vector<float> grads(100, 1);
  shares.observe(0, grads, Update::dense());
  shares.observe(1, grads, Update::skipped());
  shares.finish_step();
  EXPECT_EQ(shares.all(), (std::vector<double>{1, 1}));
}

TEST(BucketShares, AreBounded) {
  FallingGradients small(100, 1e-30f), large(100, 1e30f);
  BucketShares shares({100, 100});
  for (int step = 0; step < 20; ++step) {
    shares.observe(0, small.values, small.largest(10));
    shares.observe(1, large.values, large.largest(10));
    shares.finish_step();
  }
  EXPECT_EQ(shares.share(0), 1.0 / 16);
  EXPECT_NEAR(shares.share(1), 2 - 1.0 / 16, 2e-3);
}

// One bucket of many reaches its bound; the others keep the rest.
TEST(BucketShares, KeepTheirMeanAtTheBounds) {
  constexpr std::size_t kBuckets = 40;
  FallingGradients small(100, 1), large(100, 1e9f);
  BucketShares shares(std::vector<std::size_t>(kBuckets, 100));
  for (int step = 0; step < 40; ++step) {
    for (std::size_t i = 0; i < kBuckets; ++i) {
      FallingGradients& own = i == 7 ? large : small;
      shares.observe(i, own.values, own.largest(10));
    }
    shares.finish_step();
  }
  const std::vector<double>& all = shares.all();
  EXPECT_EQ(shares.share(7), 16);
  EXPECT_NEAR(std::accumulate(all.begin(), all.end(), 0.0), kBuckets, 0.1);
}

TEST(BucketShares, AStateOfAnotherModelIsRefused) {
  BucketShares shares({100, 100});
  EXPECT_THROW(shares.set({1}), WireError);
  EXPECT_THROW(shares.set({1, 1e9}), WireError);
  EXPECT_THROW(shares.set({1, -1}), WireError);
  shares.set({0.5, 1.5});
  EXPECT_EQ(shares.share(1), 1.5);
}

// With Selection::carry the replicas stay equal, and a resumed run is the same run, bit for bit.
TEST(BucketShares, OfAResumedRunAreThoseOfTheRun) {
  for (const std::string spec : {"topk:density=0.4", "gtopk:density=0.4"}) {
    std::vector<std::vector<float>> results(3);
    JoinOptions join;
    join.size = 3;
    run_workers("threads", join, [&](Transport& wire) {
      test::ToyTraining all(wire, spec + ",select=carry", 4);
      all.run(12);
      test::ToyTraining halves(wire, spec + ",select=carry", 4);
      halves.run(6);
      halves.resume(halves.checkpoint());
      halves.run(6);
      EXPECT_TRUE(std::ranges::equal(all.params(), halves.params())) << spec;
      test::ToyTraining other(wire, spec, 4);
      other.run(12);
      EXPECT_FALSE(std::ranges::equal(all.params(), other.params())) << spec;
      EXPECT_THROW(other.resume(all.checkpoint()), WireError);
      results[static_cast<std::size_t>(wire.rank())].assign(all.params().begin(),
                                                            all.params().end());
    });
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

// A selection over the whole model has one bucket, whatever is asked for, and so its results are
// those of one bucket.
TEST(Selection, OverTheWholeModelHasOneBucket) {
  JoinOptions join;
  join.size = 3;
  run_workers("threads", join, [](Transport& wire) {
    test::ToyTraining global(wire, "topk:density=0.4,select=global", 4);
    test::ToyTraining one(wire, "topk:density=0.4", 1);
    global.run(8);
    one.run(8);
    EXPECT_TRUE(std::ranges::equal(global.params(), one.params()));
  });
}

}  // namespace
}  // namespace thinwire::session
