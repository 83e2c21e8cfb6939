#include <gtest/gtest.h>

#include <limits>

#include "testing/model_run.h"

namespace thinwire::strategy {
namespace {

// Multiples of 1/64, so that sums and their quotients by 4 are exact.
float step_of(int rank, std::uint64_t step) {
  return static_cast<float>((rank * 7 + static_cast<int>(step) * 3) % 11 - 5) / 64;
}

test::ModelRun run_of(std::uint64_t period, std::uint64_t steps) {
  test::ModelRun run;
  run.backend = "threads";
  run.spec = "localsgd:period=" + std::to_string(period);
  run.steps = steps;
  run.movement = [](int rank, std::uint64_t step, float) { return step_of(rank, step); };
  run.seconds = [](int, std::uint64_t) { return 0.0; };
  return run;
}

TEST(LocalSgd, AveragesTheModelsOncePerPeriod) {
  const test::ModelRun run = run_of(4, 12);
  std::vector<std::vector<float>> seen(4);
  test::run_strategy(run, [&](test::StrategyDriver& driver, MutFloats params) {
    seen[static_cast<std::size_t>(driver.wire().rank())].push_back(params[0]);
  });
  float expected = 0.5f;
  for (std::uint64_t step = 0; step < 12; ++step) {
    float sum = 0;
    for (int rank = 0; rank < 4; ++rank) sum += step_of(rank, step);
    expected += sum / 4;
    const bool met = step % 4 == 3;
    EXPECT_EQ(seen[0][step] == seen[1][step], met) << step;
    for (const auto& rank : seen) {
      EXPECT_EQ(rank[step] == expected, met) << step;
    }
  }
}

TEST(LocalSgd, EndsWithTheSameModelOnEveryRank) {
  for (const int workers : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17}) {
    test::ModelRun run = run_of(8, 13);  // ends between two averages
    run.workers = workers;
    const auto records = test::run_strategy(run);
    EXPECT_TRUE(test::replicas_are_the_same(records)) << workers;
    EXPECT_NEAR(records[0].params[0], test::mean_of(records, 0), 1e-6) << workers;
    EXPECT_EQ(records[0].stats.consensus_distance > 0, workers > 1);
    EXPECT_EQ(records[0].stats.consensus_distance, records.back().stats.consensus_distance);
  }
}

TEST(LocalSgd, AloneIsPlainSgd) {
  test::ModelRun run = run_of(3, 20);
  run.workers = 1;
  float expected = 0.5f;
  for (std::uint64_t step = 0; step < 20; ++step) expected += step_of(0, step);
  EXPECT_EQ(test::run_strategy(run)[0].params[0], expected);
}

TEST(LocalSgd, AveragesNoModelsWhileGradientsAre) {
  test::ModelRun run = run_of(4, 20);
  run.options.steps = 200;
  run.options.warmup_steps = 12;
  const std::uint64_t later = test::run_strategy(run)[0].messages_sent;
  run.options.warmup_steps = 20;
  // 12 averages of gradients and 2 of models, or 20 of gradients; each is two messages per rank.
  EXPECT_EQ(test::run_strategy(run)[0].messages_sent - later, 6 * 2u);
}

TEST(LocalSgd, SkipsANonFiniteStepAloneAndRefusesANonFiniteMean) {
  test::ModelRun run = run_of(2, 4);
  run.movement = [](int rank, std::uint64_t step, float) {
    return rank == 1 && step == 1 ? std::numeric_limits<float>::infinity() : 0.25f;
  };
  EXPECT_THROW(test::run_strategy(run), Error);
}

}  // namespace
}  // namespace thinwire::strategy
