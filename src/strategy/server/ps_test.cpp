#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing/allocations.h"
#include "testing/expect.h"
#include "testing/ranks.h"
#include "testing/strategy_driver.h"
#include "testing/strategy_run.h"

namespace thinwire::strategy {
namespace {

const std::vector<std::string> kRules = {"hysteresis", "magnitude", "mask"};

// Returns a run with 400 picks, which are enough for the selection rules to take effect.
test::StrategyRun run_of(const std::string& keys, int workers = 4) {
  test::StrategyRun run;
  run.spec = "ps:density=0.02," + keys;
  run.workers = workers;
  run.numel = 20'000;
  run.steps = 6;
  return run;
}

// Returns gradients like those of real networks: each worker has a constant signal of a few large
// entries, and noise.
float noisy_gradient(int rank, std::uint64_t step, std::size_t element) {
  const auto shared = base::philox(7, 0, element, base::Purpose::test);
  const auto own = base::philox(7, step << 16 | static_cast<std::uint64_t>(rank + 1), element,
                                base::Purpose::test);
  const float signal = shared[0] % 50 == 0 ? base::unit_float(shared[1]) : 0;
  return signal * 0.2f + base::unit_float(own[0]) + base::unit_float(own[1]) +
         base::unit_float(own[2]) - 1.5f;
}

class PsRules : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, PsRules, testing::ValuesIn(kRules));

TEST_P(PsRules, AgreeAndConserveOverWorkersAndServers) {
  for (const char* keys : {"", ",keep=1", ",keep=2,values=fp32", ",servers=2", ",servers=3,keep=1",
                           ",servers=dedicated", ",servers=dedicated,keep=0.5"}) {
    for (const int workers : {3, 4, 8}) {
      const test::StrategyRun run = run_of("select=" + GetParam() + keys, workers);
      const auto records = test::run_strategy(run);
      for (const test::RankRecord& record : records) ASSERT_EQ(record.grads, records[0].grads);
      const int first = serving_ranks_of(*make_strategy(run.spec), workers);
      EXPECT_LE(test::imbalance(run, records, first), test::allowed_imbalance(workers - first))
          << run.spec;
    }
  }
}

TEST_P(PsRules, GoOnFromTheirSavedState) {
  test::StrategyRun run = run_of("servers=2,keep=2,select=" + GetParam(), 3);
  run.options.sgd = {0.9f, 1e-3f, true};
  const auto whole = test::run_strategy(run);
  run.steps = 3;
  std::vector<Payload> states;
  for (const test::RankRecord& record : test::run_strategy(run)) states.push_back(record.state);
  run.steps = 6;
  const auto second = test::run_strategy(run, states.data(), 3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(second[rank].state, whole[rank].state);
    EXPECT_EQ(second[rank].grads.back(), whole[rank].grads.back());
  }
}

// All bytes on the wire belong to votes, pushes and aggregates.
TEST_P(PsRules, ReportTheBytesThatTheySend) {
  for (const char* servers : {"1", "3", "dedicated"}) {
    test::StrategyRun run = run_of(fmt::format("servers={},select={}", servers, GetParam()), 5);
    const auto records = test::run_strategy(run);
    double sent = 0, votes = 0;
    for (int rank = 0; rank < 5; ++rank) {
      sent += static_cast<double>(records[std::size_t(rank)].bytes_sent);
      votes += static_cast<double>(allreduce_bytes(1, rank, 5));
    }
    EXPECT_GT(metric(records, "bytes_per_coordinate"), 2);  // its value alone
    const double steps = static_cast<double>(run.steps);
    EXPECT_DOUBLE_EQ(metric(records, "bytes_up") + metric(records, "bytes_down"),
                     sent / steps - votes)
        << run.spec;
  }
}

// If n workers pick at random, the aggregates have d (1 - (1 - density)^n) coordinates.
TEST(Ps, TheUnionOfRandomPicksFollowsItsLaw) {
  constexpr double kDensity = 0.01;
  for (const int workers : {2, 3, 4, 8, 16, 32}) {
    test::StrategyRun run;
    // One server for each worker, or a dense exchange would be shorter.
    run.spec = fmt::format("ps:select=magnitude,values=fp32,servers={}", workers);
    run.workers = workers;
    run.numel = 100'000;
    run.gradient = [](int rank, std::uint64_t step, std::size_t element) {
      const auto stream = step << 16 | static_cast<std::uint64_t>(rank);
      return base::unit_float(base::philox(3, stream, element, base::Purpose::test)[0]) - 0.5f;
    };
    run.steps = 1;
    const double expected = (1 - std::pow(1 - kDensity, workers)) / kDensity;
    EXPECT_NEAR(metric(test::run_strategy(run), "union_over_k"), expected, 0.01 * expected)
        << workers;
  }
}

// Servers that withhold entries deliver no more picks than they send.
TEST(Ps, PicksThatAServerWithholdsAreNotDelivered) {
  test::StrategyRun run = run_of("select=magnitude,keep=1", 8);
  run.gradient = noisy_gradient;
  run.steps = 10;
  const auto records = test::run_strategy(run);
  // Each of 10 steps delivers k of 8 k picks, or a few more that meet in one coordinate.
  EXPECT_LT(metric(records, "workers_per_change"), 2);
  EXPECT_LT(metric(records, "coverage"), 2 * 10 * 0.02 / 8);
  EXPECT_GT(metric(records, "coverage"), 0);
}

TEST(Ps, MetricsShrinkTheUnion) {
  const auto union_of = [](const std::string& keys) {
    test::StrategyRun run = run_of(keys, 8);
    run.steps = 40;
    run.gradient = noisy_gradient;
    run.options.sgd = {0.9f, 0, false};
    return metric(test::run_strategy(run), "union_over_k");
  };
  const double plain = union_of("select=magnitude");
  RecordProperty("magnitude", std::to_string(plain));
  EXPECT_GT(plain, 6);
  EXPECT_LT(union_of("select=hysteresis"), 0.75 * plain);
  EXPECT_LT(union_of("select=mask"), 0.45 * plain);
  EXPECT_DOUBLE_EQ(union_of("select=magnitude,keep=1"), 1);
  EXPECT_DOUBLE_EQ(union_of("select=hysteresis,keep=2"), 2);
}

// Rounding errors of coordinates that all workers picked are sent in a later step, together with
// picks of single workers: these are more entries than all pushes of one step have.
TEST(Ps, MayKeepMoreThanWorkersPush) {
  for (const char* keys : {"keep=4", "keep=4,servers=2", "keep=900"}) {
    test::StrategyRun run = run_of(std::string("select=magnitude,") + keys, 2);
    run.steps = 8;
    run.gradient = [](int rank, std::uint64_t step, std::size_t element) {
      const bool common = step % 2 == 0;
      const std::size_t first = common ? 0 : 5'000 * static_cast<std::size_t>(rank + 1);
      const bool large = element >= first && element < first + 400;
      return large ? 1 + static_cast<float>(rank) / 128 : 0.0f;  // bf16 has them, but not their sum
    };
    const auto records = test::run_strategy(run);
    EXPECT_EQ(records[0].grads, records[1].grads) << keys;
    EXPECT_LE(test::imbalance(run, records, 0), test::allowed_imbalance(2)) << keys;
  }
}

TEST(Ps, LambdaGrowsFromNothing) {
  test::StrategyRun run = run_of("select=hysteresis,warmup=none", 4);
  run.options.steps = std::uint64_t{1} << 50;  // no step of it is far enough
  run.options.steps_per_epoch = 1000;
  test::StrategyRun plain = run;
  plain.spec = "ps:density=0.02,select=magnitude,warmup=none";
  EXPECT_EQ(test::run_strategy(run)[0].grads, test::run_strategy(plain)[0].grads);
  run.options.steps = 20;
  EXPECT_NE(test::run_strategy(run)[0].grads, test::run_strategy(plain)[0].grads);
}

// With momentum before the selection, and all entries selected, the result is the momentum SGD of
// the mean gradient.
TEST(Ps, OfDensityOneIsDenseMomentumSgd) {
  for (const char* servers : {"1", "4", "dedicated"}) {
    test::StrategyRun run;
    run.spec = fmt::format("ps:density=1,servers={}", servers);
    run.workers = 4;
    run.steps = 5;
    run.options.sgd = {0.5f, 0.125f, false};  // exact in binary, as the parameters (0.5)
    const auto records = test::run_strategy(run);
    const int first = serving_ranks_of(*make_strategy(run.spec), 4);
    for (std::size_t i = 0; i < run.numel; ++i) {
      double velocity = 0;
      for (std::uint64_t step = 0; step < run.steps; ++step) {
        double gradient = 0.125 * 0.5;
        for (int rank = first; rank < 4; ++rank) {
          gradient += test::grid_gradient(rank, step, i) / (4.0 - first);
        }
        velocity = 0.5 * velocity + gradient;
        ASSERT_NEAR(records[0].grads[step][i], velocity, 1e-4) << servers << ", step " << step;
      }
    }
  }
}

// The results of workers do not depend on whether the server's rank is a worker, too.
TEST(Ps, ADedicatedServerIsNoWorker) {
  for (const std::string& rule : kRules) {
    test::StrategyRun shared = run_of("select=" + rule, 3);
    shared.options.sgd = {0.9f, 1e-3f, false};
    test::StrategyRun dedicated = run_of("servers=dedicated,select=" + rule, 4);
    dedicated.options.sgd = shared.options.sgd;
    dedicated.gradient = [](int rank, std::uint64_t step, std::size_t element) {
      if (rank == 0) return std::numeric_limits<float>::quiet_NaN();
      return test::grid_gradient(rank - 1, step, element);
    };
    EXPECT_EQ(test::run_strategy(dedicated)[0].grads, test::run_strategy(shared)[0].grads) << rule;
    EXPECT_EQ(serving_ranks_of(*make_strategy(dedicated.spec), 4), 1);
    EXPECT_EQ(serving_ranks_of(*make_strategy(dedicated.spec), 1), 0);
  }
}

TEST(Ps, WithOneShardOrManyIsTheSame) {
  const auto one = test::run_strategy(run_of("select=hysteresis", 4));
  for (const int servers : {2, 3, 4}) {
    EXPECT_EQ(test::run_strategy(run_of(fmt::format("select=hysteresis,servers={}", servers), 4))[0]
                  .grads,
              one[0].grads);
  }
}

std::vector<std::string> warnings(const std::string& spec, std::size_t numel, int workers = 2) {
  test::StrategyRun run;
  run.spec = spec;
  run.numel = numel;
  run.workers = workers;
  return test::warnings_of(run);
}

TEST(Ps, SaysThatFewCoordinatesAreSelectedByMagnitude) {
  const auto few = warnings("ps:density=0.01", 9000);
  ASSERT_EQ(few.size(), 1u);
  EXPECT_TRUE(test::has(few[0], "90 coordinates for servers=1"));
  EXPECT_TRUE(warnings("ps:density=0.01", 10'000).empty());
  EXPECT_EQ(warnings("ps:density=0.01,servers=2", 10'000).size(), 1u);
  EXPECT_TRUE(warnings("ps:density=0.01,select=magnitude", 9000).empty());

  test::StrategyRun small = run_of("select=hysteresis");
  small.numel = 2000;  // 40 picks
  test::StrategyRun plain = small;
  plain.spec = "ps:density=0.02,select=magnitude";
  EXPECT_EQ(test::run_strategy(small)[0].grads, test::run_strategy(plain)[0].grads);
}

TEST(Ps, SaysThatOneServerIsTooFewForManyWorkers) {
  const auto many = warnings("ps:density=0.01", 50'000, 32);
  ASSERT_EQ(many.size(), 1u);
  EXPECT_TRUE(test::has(many[0], "every step is dense; use servers=32"));
  EXPECT_TRUE(warnings("ps:density=0.01,keep=1", 50'000, 32).empty());
  EXPECT_TRUE(warnings("ps:density=0.01,select=magnitude,servers=32", 50'000, 32).empty());
}

TEST(Ps, RefusesWhatMakesNoSense) {
  for (const char* spec :
       {"ps:servers=0", "ps:servers=few", "ps:servers=", "ps:keep=0", "ps:keep=x", "ps:keep=nan",
        "ps:quota=2", "ps:lambda=-1", "ps:select=random", "ps:select=leader", "ps:select=frequency",
        "ps:select=age", "ps:index=raw", "ps:small=dense"}) {
    EXPECT_THROW(make_strategy(spec), ConfigError) << spec;
  }
  const auto error =
      test::must_throw<ConfigError>([] { test::run_strategy(run_of("servers=5", 4)); });
  EXPECT_TRUE(test::has(error.what(), "there are more servers (5) than ranks (4)"));
}

// A rank that serves starts a task in each step, which allocates memory; workers allocate none.
TEST(Ps, WorkersAllocateNothingAfterTheFirstSteps) {
  for (const std::string& rule : kRules) {
    test::on_ranks(4, [&](Transport& wire) {
      const Layout layout{{{"all", 0, {50'000}}}, 50'000};
      std::vector<float> grads(layout.numel), params(layout.numel, 0.5f);
      RunOptions run;
      run.sgd = {0.9f, 1e-4f, false};
      test::StrategyDriver driver(wire, "ps:select=" + rule, layout, run);
      driver.begin(params);
      while (driver.step() < 12) {
        const std::uint64_t step = driver.step();
        for (std::size_t i = 0; i < grads.size(); ++i) {
          grads[i] = test::grid_gradient(wire.rank(), step, i);
        }
        const std::uint64_t before = test::allocations();
        driver.exchange(grads, params);
        if (step > 6 && wire.rank() > 0) {
          EXPECT_EQ(test::allocations() - before, 0u) << rule << ", step " << step;
        }
      }
    });
  }
}

}  // namespace
}  // namespace thinwire::strategy
