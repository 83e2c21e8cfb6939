#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"
#include "testing/strategy_driver.h"
#include "thinwire/collective.h"
#include "thinwire/launch.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {
namespace {

// Multiples of 2^-11 below 1: their sums over a few hundred ranks are exact in any order.
float value(int rank, std::size_t element) {
  const auto block =
      base::philox(11, static_cast<std::uint64_t>(rank), element, base::Purpose::test);
  return static_cast<float>(block[0] >> 21) * 0x1.0p-11f;
}

std::vector<std::vector<float>> averaged(int workers, std::size_t numel,
                                         const std::string& spec = "dense") {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(workers));
  JoinOptions options;
  options.size = workers;
  run_workers("threads", options, [&](Transport& wire) {
    std::vector<float> grads(numel);
    for (std::size_t i = 0; i < numel; ++i) grads[i] = value(wire.rank(), i);
    const Layout layout{{{"all", 0, {numel}}}, numel};
    test::StrategyDriver driver(wire, spec, layout);
    driver.begin();
    driver.exchange(grads);
    results[static_cast<std::size_t>(wire.rank())] = std::move(grads);
  });
  return results;
}

TEST(Dense, IsTheMeanOnEveryRank) {
  for (const int workers : {2, 3, 4, 5, 8, 17}) {
    for (const std::size_t numel : {0u, 1u, 7u, 1000u, 40'003u}) {
      const auto results = averaged(workers, numel);
      for (std::size_t i = 0; i < numel; ++i) {
        float sum = 0;
        for (int rank = 0; rank < workers; ++rank) sum += value(rank, i);
        for (const auto& result : results) {
          ASSERT_EQ(result[i], sum / static_cast<float>(workers)) << workers << " workers, " << i;
        }
      }
    }
  }
}

TEST(Dense, LeavesASingleWorkerAlone) {
  for (const char* spec : {"dense", "dense:dtype=bf16", "dense:dtype=fp16"}) {
    const auto results = averaged(1, 1000, spec);
    for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(results[0][i], value(0, i));
  }
}

TEST(Dense, In16BitsIsCloseToTheMeanAndTheSameOnEveryRank) {
  const struct {
    const char* spec;
    float unit;  // half a unit in the last place of a value below 1
  } kFormats[] = {{"dense:dtype=bf16", 0x1.0p-9f}, {"dense:dtype=fp16", 0x1.0p-12f}};
  for (const auto& [spec, unit] : kFormats) {
    for (const int workers : {2, 3, 8}) {
      const auto results = averaged(workers, 40'003, spec);
      for (std::size_t i = 0; i < results[0].size(); ++i) {
        float sum = 0;
        for (int rank = 0; rank < workers; ++rank) sum += value(rank, i);
        // Each contribution and each partial sum is rounded once.
        ASSERT_NEAR(results[0][i], sum / static_cast<float>(workers),
                    2 * static_cast<float>(workers) * unit)
            << spec << ", " << workers << " workers, " << i;
      }
      for (const auto& result : results) ASSERT_EQ(result, results[0]);
    }
  }
}

TEST(Dense, In16BitsSendsHalfTheBytes) {
  JoinOptions options;
  options.size = 4;
  run_workers("threads", options, [](Transport& wire) {
    std::vector<float> grads(100'000, 1.0f);
    const Layout layout{{{"all", 0, {grads.size()}}}, grads.size()};
    test::StrategyDriver driver(wire, "dense:dtype=bf16", layout);
    driver.begin();
    EXPECT_FALSE(driver.exchange(grads).skip);
    EXPECT_EQ(wire.traffic().bytes_sent, allreduce_bytes(grads.size(), wire.rank(), wire.size(),
                                                         Route::automatic, sizeof(Bf16)));
  });
}

TEST(Dense, ANonFiniteGradientAnywhereIsSeenByAll) {
  for (const char* spec : {"dense", "dense:dtype=bf16", "dense:dtype=fp16"}) {
    JoinOptions options;
    options.size = 3;
    run_workers("threads", options, [&](Transport& wire) {
      std::vector<float> grads(5000, 1.0f);
      if (wire.rank() == 1) grads[4321] = -std::numeric_limits<float>::infinity();
      const Layout layout{{{"all", 0, {grads.size()}}}, grads.size()};
      test::StrategyDriver driver(wire, spec, layout);
      driver.begin();
      EXPECT_TRUE(driver.exchange(grads).skip) << spec;
    });
  }
}

}  // namespace
}  // namespace thinwire::strategy
