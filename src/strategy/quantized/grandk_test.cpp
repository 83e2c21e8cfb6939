// Tests which elements grandk draws, and that no gradient is lost.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>

#include "strategy/quantized/stratified_draw.h"
#include "testing/quantized_run.h"
#include "testing/ranks.h"
#include "testing/strategy_driver.h"
#include "transport/backends.h"

namespace thinwire::strategy {
namespace {

RC_GTEST_PROP(StratifiedDraw, TakesOneOfEachRunAndAllInTurn, ()) {
  const auto numel = *rc::gen::inRange<std::size_t>(1, 3000);
  const auto count = *rc::gen::inRange<std::size_t>(1, numel + 1);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const StratifiedDraw draw(numel, count);
  std::vector<std::uint32_t> places(count);
  std::vector<int> seen(numel);
  const std::size_t shortest = numel / count;
  for (std::uint64_t step = 0; step < shortest; ++step) {
    draw.at(seed, step, places);
    RC_ASSERT(std::ranges::adjacent_find(places, std::greater_equal<>()) == places.end());
    for (const std::uint32_t place : places) RC_ASSERT(++seen.at(place) == 1);
  }
}

class GRandKGroups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, GRandKGroups, testing::ValuesIn(test::kGroupSizes));

TEST_P(GRandKGroups, AgreeAndLoseNothing) {
  if (GetParam() == 1) return;
  for (const std::string spec : {"grandk", "grandk:density=0.4", "grandk:density=0.1",
                                 "grandk:density=0.1,scales=2+6", "grandk:density=0.03,bits=2"}) {
    const test::StrategyRun run = test::matrix_run(spec, GetParam(), 70, 5);
    const auto records = test::run_strategy(run);
    test::Vectors residuals;
    for (const test::RankRecord& record : records) {
      ASSERT_EQ(record.grads, records[0].grads);
      residuals.push_back(test::residual_of(record));
    }
    for (std::size_t i = 0; i < run.numel; ++i) {
      double contributed = 0, applied = 0, held = 0;
      for (std::uint64_t step = 0; step < run.steps; ++step) {
        for (int rank = 0; rank < run.workers; ++rank) contributed += run.gradient(rank, step, i);
        applied += static_cast<double>(records[0].grads[step][i]) * run.workers;
      }
      for (const auto& residual : residuals) held += residual[i];
      ASSERT_NEAR(contributed, applied + held, 1e-5 * run.workers);
    }
  }
}

TEST(GRandK, ChangesTheDrawnElementsAlone) {
  test::StrategyRun run = test::matrix_run("grandk:density=0.05", 2, 640, 3);
  run.gradient = [](int, std::uint64_t, std::size_t) { return 1.0f; };
  const auto records = test::run_strategy(run);
  for (const auto& step : records[0].grads) {
    const auto changed = std::ranges::count_if(step, [](float x) { return x != 0; });
    EXPECT_EQ(changed, 3200);
  }
}

TEST(GRandK, SmallTensorsAreSentInEveryStep) {
  test::StrategyRun run = test::matrix_run("grandk:density=0.25,bits=8", 3, 30, 4);
  run.tensors = {{"w", 0, {20, 100}}, {"b", 2000, {37}}, {"v", 2037, {9, 100}}, {"c", 2937, {63}}};
  const auto records = test::run_strategy(run);
  for (std::uint64_t step = 0; step < run.steps; ++step) {
    const test::Vectors in = test::gradients_of(run, step);
    for (std::size_t i = 2000; i < run.numel; ++i) {  // v has less than 1024 elements: small, too
      ASSERT_NEAR(records[0].grads[step][i], (in[0][i] + in[1][i] + in[2][i]) / 3, 0.02);
    }
  }
}

// From density 0.25 on, a drawn element sends its present gradient for the four steps of its run.
// It was last drawn 1 to 7 steps ago, and would send a value from 1 to 7 if it sent its residual.
TEST(GRandK, SendsThePresentGradientForTheStepsThatWait) {
  test::StrategyRun run = test::matrix_run("grandk:density=0.25,warmup=none,bits=12", 2, 64, 40);
  run.gradient = [](int, std::uint64_t, std::size_t) { return 1.0f; };
  const auto records = test::run_strategy(run);
  for (const float value : records[0].grads.back()) {
    EXPECT_TRUE(value == 0 || std::abs(value - 4) < 1.5f) << value;
  }
}

TEST(GRandK, LeavesMomentumToTheOptimizerUnlessItsDensityIsLow) {
  const SgdConfig asked{.momentum = 0.9f, .weight_decay = 0.1f, .nesterov = true};
  const auto share = [&](const char* spec) {
    return dynamic_cast<GradientStrategy&>(*make_strategy(spec)).optimizer_share(asked);
  };
  EXPECT_EQ(share("grandk").momentum, 0.9f);
  EXPECT_EQ(share("grandk:density=0.25").momentum, 0.9f);
  EXPECT_EQ(share("grandk:density=0.1").momentum, 0);
  EXPECT_EQ(share("grandk:density=0.1").weight_decay, 0.1f);
  test::StrategyRun run = test::matrix_run("grandk:density=0.1", 2, 64);
  run.options.sgd = asked;
  EXPECT_EQ(test::warnings_of(run).size(), 1u);
}

TEST(GRandK, AnAutomaticDensityCoversTheRun) {
  const auto density = [](std::uint64_t steps) {
    test::StrategyRun run = test::matrix_run("grandk", 2, 64, 1);
    run.options.steps = steps;
    return metric(test::run_strategy(run), "density");
  };
  EXPECT_DOUBLE_EQ(density(10'000), 0.33);
  EXPECT_EQ(density(80), 0.75);
  EXPECT_EQ(density(20), 1);
  EXPECT_DOUBLE_EQ(density(0), 0.33);
}

TEST(GRandK, AStepThatFailsLosesNothing) {
  for (std::uint64_t at = 0; at < 40; ++at) {
    transport::BackendOptions options;
    options.size = 3;
    options.fault = "fail:rank=1,at=" + std::to_string(at);
    std::atomic<bool> failed = false;
    const auto worker = [&](Transport& wire) {
      const Layout layout{{{"w", 0, {20, 100}}, {"b", 2000, {30}}}, 2030};
      std::vector<float> params(layout.numel), grads(layout.numel);
      test::StrategyDriver driver(wire, "grandk:density=0.1,warmup=none", layout);
      driver.begin();
      for (std::size_t i = 0; i < grads.size(); ++i)
        grads[i] = test::grid_gradient(wire.rank(), 0, i);
      try {
        driver.exchange(grads, params);
      } catch (const Error&) {
        test::RankRecord record;
        record.state = driver.save();
        const std::vector<float> held = test::residual_of(record);
        for (std::size_t i = 0; i < grads.size(); ++i) {
          const float gradient = test::grid_gradient(wire.rank(), 0, i);
          ASSERT_TRUE(held[i] == gradient || (held[i] == 0 && grads[i] == gradient)) << at;
        }
        failed = true;
        throw;
      }
    };
    try {
      run_workers("threads", options, worker);
    } catch (const Error&) {
    }
    if (!failed) return;  // the step has no more operations
  }
}

TEST(GRandK, GoesOnFromACheckpointBitForBit) {
  const test::StrategyRun run = test::matrix_run("grandk:density=0.1,warmup=none", 3, 70, 6);
  test::StrategyRun first = run;
  first.steps = 3;
  const auto whole = test::run_strategy(run), half = test::run_strategy(first);
  std::vector<Payload> states;
  for (const test::RankRecord& record : half) states.push_back(record.state);
  const auto rest = test::run_strategy(run, states.data(), 3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(rest[rank].state, whole[rank].state);
    EXPECT_EQ(rest[rank].grads.back(), whole[rank].grads.back());
  }
}

}  // namespace
}  // namespace thinwire::strategy
