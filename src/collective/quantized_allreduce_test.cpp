#include "collective/quantized_allreduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "testing/allocations.h"
#include "testing/ranks.h"
#include "thinwire/collective.h"
#include "thinwire/error.h"

namespace thinwire::collective {
namespace {

// Counts the calls, and checks that compute() is not nested.
class CountedTiming final : public PhaseTiming {
 public:
  void compute(Work work) override {
    EXPECT_FALSE(computing_);
    computing_ = true;
    work();
    computing_ = false;
    ++computed;
  }
  int computed = 0;

 private:
  bool computing_ = false;
};

std::vector<float> values_of(int rank, std::size_t numel) {
  std::vector<float> out(numel);
  for (std::size_t i = 0; i < numel; ++i) {
    const auto random = base::philox(3, static_cast<std::uint64_t>(rank), i, base::Purpose::test);
    out[i] = base::unit_float(random[0]) - 0.5f;
  }
  return out;
}

std::vector<double> true_mean(int ranks, std::size_t numel) {
  std::vector<double> out(numel);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = values_of(rank, numel);
    for (std::size_t i = 0; i < numel; ++i) out[i] += static_cast<double>(values[i]) / ranks;
  }
  return out;
}

class QuantizedAllreduceGroups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, QuantizedAllreduceGroups, testing::ValuesIn(test::kGroupSizes));

// The sizes cover both exchanges: words for few elements, two hops for many.
TEST_P(QuantizedAllreduceGroups, ComputeTheMeanToWithinAStepOfTheLattice) {
  const int size = GetParam();
  const std::size_t many = size < 10 ? 300'000 : 20'000;
  for (const std::size_t numel : {std::size_t{0}, std::size_t{3}, std::size_t{1000}, many}) {
    const std::vector<double> wanted = true_mean(size, numel);
    test::on_ranks(size, [&](Transport& wire) {
      QuantizedAllreduce allreduce({.bits = {4, 8}, .bucket_tiles = 4});
      allreduce.begin(numel, size);
      CountedTiming timing;
      std::vector<float> values = values_of(wire.rank(), numel);
      ASSERT_TRUE(allreduce.agree(wire, timing, values, 0));
      allreduce.exchange(wire, timing, {values, values, Rounding::dithered, 7, 1});
      for (std::size_t i = 0; i < numel; ++i) ASSERT_NEAR(values[i], wanted[i], 0.5 / 15);
      EXPECT_GT(timing.computed, 0);
      std::uint64_t same[2] = {0, 0};
      for (const float value : values) same[0] = same[0] * 31 + std::bit_cast<std::uint32_t>(value);
      same[1] = ~same[0];
      allreduce_max(wire, std::span(same));
      EXPECT_EQ(same[0], ~same[1]) << "the ranks have different means";
    });
  }
}

TEST(QuantizedAllreduce, NearestLeavesTheRoundingErrors) {
  constexpr std::size_t kNumel = 5000;
  test::on_ranks(4, [&](Transport& wire) {
    QuantizedAllreduce allreduce({.bits = {4}, .bucket_tiles = 1});
    allreduce.begin(kNumel, 4);
    CountedTiming timing;
    std::vector<float> values = values_of(wire.rank(), kNumel), mean(kNumel);
    ASSERT_TRUE(allreduce.agree(wire, timing, values, 0));
    allreduce.exchange(wire, timing, {values, mean, Rounding::nearest, 7, 1});
    allreduce_sum(wire, values);  // mean + the mean of the errors = the true mean
    const std::vector<double> wanted = true_mean(4, kNumel);
    for (std::size_t i = 0; i < kNumel; ++i) {
      ASSERT_NEAR(static_cast<double>(mean[i]) + static_cast<double>(values[i]) / 4, wanted[i],
                  1e-6);
    }
  });
}

TEST(QuantizedAllreduce, ANumberThatIsNotFiniteIsSeenByAllRanks) {
  test::on_ranks(3, [](Transport& wire) {
    QuantizedAllreduce allreduce({});
    allreduce.begin(100, 3);
    CountedTiming timing;
    std::vector<float> values(100, 1.0f);
    EXPECT_TRUE(allreduce.agree(wire, timing, values, 0));
    const float infinity = std::numeric_limits<float>::infinity();
    const auto outside = std::bit_cast<std::uint32_t>(wire.rank() == 2 ? infinity : 1.0f);
    EXPECT_FALSE(allreduce.agree(wire, timing, values, outside));
    if (wire.rank() == 1) values[42] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(allreduce.agree(wire, timing, values, 0));
  });
}

TEST(QuantizedAllreduce, AllocatesNothingFromTheSecondExchangeOn) {
  for (const std::size_t numel : {std::size_t{2000}, std::size_t{400'000}}) {
    test::on_ranks(4, [&](Transport& wire) {
      QuantizedAllreduce allreduce({.bits = {4, 8}, .bucket_tiles = 4});
      allreduce.begin(numel, 4);
      CountedTiming timing;
      std::vector<float> values = values_of(wire.rank(), numel);
      for (std::uint64_t step = 0; step < 3; ++step) {
        const std::uint64_t before = test::allocations();
        allreduce.agree(wire, timing, values, 0);
        allreduce.exchange(wire, timing, {values, values, Rounding::dithered, 7, step});
        EXPECT_TRUE(step == 0 || test::allocations() == before) << numel;
      }
    });
  }
}

TEST(QuantizedAllreduce, RefusesSumsThatAreNotExactInAFloat) {
  QuantizedAllreduce allreduce({.bits = {12}});
  EXPECT_NO_THROW(allreduce.begin(10, 2000));
  EXPECT_THROW(allreduce.begin(10, 5000), ConfigError);
}

}  // namespace
}  // namespace thinwire::collective
