// LASGD as a whole, in simulated time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "strategy/common/consensus.h"
#include "testing/model_run.h"
#include "thinwire/collective.h"

namespace thinwire::strategy {
namespace {

class LaSgd : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  }
};

float noise(int rank, std::uint64_t step) {
  const auto stream = static_cast<std::uint64_t>(rank);
  return 0.1f * (base::unit_float(base::philox(5, stream, step, base::Purpose::test)[0]) - 0.5f);
}

double all_noise(int workers, std::uint64_t steps) {
  double sum = 0;
  for (int rank = 0; rank < workers; ++rank) {
    for (std::uint64_t step = 0; step < steps; ++step)
      sum += static_cast<double>(noise(rank, step));
  }
  return sum / workers;
}

test::ModelRun noisy_run(int workers, std::uint64_t steps) {
  test::ModelRun run;
  run.spec = "lasgd";
  run.workers = workers;
  run.steps = steps;
  run.network = Network{1e7, Seconds(1e-4)};
  run.movement = [](int rank, std::uint64_t step, float) { return noise(rank, step); };
  return run;
}

TEST_F(LaSgd, EndsWithTheSameModelAndAllOfTheProgress) {
  for (const int workers : {1, 2, 3, 4, 5, 8, 9, 16}) {
    for (const char* spec :
         {"lasgd", "lasgd:period=1", "lasgd:period=7", "lasgd:bits=32", "lasgd:bits=32,period=7"}) {
      test::ModelRun run = noisy_run(workers, 60);
      run.spec = spec;
      const auto records = test::run_strategy(run);
      ASSERT_TRUE(test::replicas_are_the_same(records)) << workers;
      EXPECT_NEAR(records[0].params[3], 0.5 + all_noise(workers, 60), 1e-4) << workers;
    }
  }
}

double period_of(test::StrategyDriver& driver) {
  for (const Metric& metric : driver.metrics()) {
    if (metric.name == "period") return metric.value();
  }
  return 0;
}

// Steps that a worker makes during a long all-reduce are not lost, and the period adapts.
TEST_F(LaSgd, ARoundMayTakeManySteps) {
  test::ModelRun run = noisy_run(4, 400);
  run.network = Network{3e4, Seconds(1e-3)};  // a round takes about ten steps
  const auto records = test::run_strategy(run);
  EXPECT_TRUE(test::replicas_are_the_same(records));
  EXPECT_NEAR(records[0].params[0], 0.5 + all_noise(4, 400), 1e-4);
  EXPECT_GT(metric(records, "overlap_steps"), 3);
  EXPECT_GT(metric(records, "period"), 3);
  EXPECT_GT(metric(records, "rounds"), 10);
  EXPECT_EQ(metric(records, "blocked"), 0);
  // No worker waited: 400 steps of 0.01 s take 4 s.
  for (const test::ModelRecord& record : records) EXPECT_NEAR(record.ended.back(), 4.0, 1e-6);
  EXPECT_LT(records[0].stats.consensus_distance, 1.0);
}

// A test of the model between two steps is no step: the period stays near what it was.
TEST_F(LaSgd, APauseIsNoStep) {
  test::ModelRun run = noisy_run(4, 400);
  run.network = Network{3e4, Seconds(1e-3)};  // a round takes about ten steps
  const double before = metric(test::run_strategy(run), "period");
  run.seconds = [](int, std::uint64_t step) { return step == 398 ? 1.0 : 0.01; };
  EXPECT_GT(metric(test::run_strategy(run), "period"), before / 2);
}

// Workers that wait because of their bound begin the round for which they wait.
TEST_F(LaSgd, ABoundShortensThePeriod) {
  test::ModelRun run = noisy_run(4, 400);
  run.network = Network{3e4, Seconds(1e-3)};  // a round takes about ten steps
  run.spec = "lasgd:bits=32,max=2";
  const auto records = test::run_strategy(run);
  EXPECT_TRUE(test::replicas_are_the_same(records));
  EXPECT_EQ(metric(records, "period"), 2);
  EXPECT_GT(metric(records, "rounds"), 150);
}

TEST_F(LaSgd, RoundsBringModelsTogether) {
  test::ModelRun run = noisy_run(8, 60);
  run.spec = "lasgd:bits=32";  // few bits need a common start
  run.start = [](int rank, std::size_t) { return static_cast<float>(rank); };
  run.movement = [](int, std::uint64_t, float) { return 0.0f; };
  for (const double slow : {1.0, 7.0}) {
    run.seconds = [slow](int rank, std::uint64_t) { return rank == 5 ? 0.01 * slow : 0.01; };
    const auto records = test::run_strategy(run);
    EXPECT_LT(records[0].stats.consensus_distance, 1e-5) << slow;
    EXPECT_NEAR(records[0].params[0], 3.5, 1e-5) << slow;
  }
}

// Rounding errors stay in the models of their workers until later rounds send them.
TEST_F(LaSgd, RoundsBringModelsTogetherInFewBits) {
  test::ModelRun run = noisy_run(8, 80);
  run.spec = "lasgd:bits=4";
  run.movement = [](int rank, std::uint64_t step, float) {
    return step < 20 ? noise(rank, step) : 0.0f;
  };
  const auto records = test::run_strategy(run);
  EXPECT_LT(records[0].stats.consensus_distance, 1e-5);
  EXPECT_NEAR(records[0].params[0], 0.5 + all_noise(8, 20), 1e-5);
}

TEST_F(LaSgd, FewBitsTakeFewerBytesInARound) {
  test::ModelRun run = noisy_run(4, 60);
  run.numel = 20'000;
  const auto bytes_per_round = [&](const char* spec) {
    run.spec = spec;
    const auto records = test::run_strategy(run);
    const auto end =
        static_cast<double>(allreduce_bytes(20'000, 0, 4));  // the last mean is in full
    return (static_cast<double>(records[0].bytes_sent) - end) / metric(records, "rounds");
  };
  const double full = bytes_per_round("lasgd:period=4,bits=32"),
               few = bytes_per_round("lasgd:period=4,bits=4");
  EXPECT_GT(full / few, 5);
}

// All workers minimize the same quadratic function, with momentum, at a learning rate at which each
// of them is stable alone. Rounds take several steps: a correction that is applied in full, and at
// once, would make the models diverge.
TEST_F(LaSgd, ALateAverageDoesNotDestabilize) {
  for (const double latency : {0.003, 0.02, 0.05}) {
    for (const float curvature : {0.02f, 0.2f, 1.0f, 2.0f}) {
      test::ModelRun run = noisy_run(4, 800);
      run.network = Network{1e9, Seconds(latency)};
      run.numel = 1;
      run.options.sgd.momentum = 0.9f;
      std::vector<float> velocity(4);
      run.movement = [&](int rank, std::uint64_t step, float now) {
        float& speed = velocity[static_cast<std::size_t>(rank)];
        speed = 0.9f * speed + curvature * (now - 3 + noise(rank, step));
        return -speed;
      };
      const auto records = test::run_strategy(run);
      for (const test::ModelRecord& record : records) {
        EXPECT_NEAR(record.before_end[0], 3, 1) << latency << ", " << curvature;
      }
    }
  }
}

TEST_F(LaSgd, AloneIsPlainSgd) {
  test::ModelRun run = noisy_run(1, 30);
  run.options.steps = 30;
  float expected = 0.5f;
  for (std::uint64_t step = 0; step < 30; ++step) expected += noise(0, step);
  const auto records = test::run_strategy(run);
  EXPECT_EQ(records[0].params[0], expected);
  EXPECT_EQ(records[0].messages_sent, 0u);
}

TEST_F(LaSgd, FastWorkersDoMoreOfTheWork) {
  test::ModelRun run = noisy_run(4, 0);
  run.options.samples = 2000;
  run.samples_per_step = 4;
  test::expect_work_by_speed(run, 0, 4);
}

// The rounds of a worker in a long step go on with the model of its last step.
TEST_F(LaSgd, AWorkerInALongStepDelaysNoOther) {
  test::ModelRun run = noisy_run(4, 200);
  run.spec = "lasgd:max=16";
  run.seconds = [](int rank, std::uint64_t step) { return rank == 1 && step == 20 ? 5 : 0.01; };
  const auto records = test::run_strategy(run);
  EXPECT_NEAR(records[0].ended.back(), 2.0, 1e-6);
  EXPECT_EQ(metric(records, "blocked"), 0);
  EXPECT_NEAR(records[0].params[0], 0.5 + all_noise(4, 200), 1e-4);
}

// The rounds of a worker stall, too: the other workers continue up to the bound.
TEST_F(LaSgd, AStalledWorkerBlocksTheOthersAfterTheBound) {
  test::ModelRun run = noisy_run(4, 200);
  run.spec = "lasgd:period=1,max=32";
  run.fault = "stall:rank=1,at=100,seconds=5";
  const auto records = test::run_strategy(run);
  const test::ModelRecord& other = records[0];
  double longest = 0;
  std::size_t blocked_at = 0;
  for (std::size_t step = 1; step < other.ended.size(); ++step) {
    const double took = other.ended[step] - other.ended[step - 1];
    if (took > longest) longest = took, blocked_at = step;
  }
  EXPECT_GT(longest, 4);
  EXPECT_LT(longest, 5.1 - 31 * 0.01);
  EXPECT_GT(blocked_at, 32u);
  EXPECT_GT(metric(records, "blocked"), 3);
  EXPECT_TRUE(test::replicas_are_the_same(records));
  EXPECT_NEAR(records[0].params[0], 0.5 + all_noise(4, 200), 1e-4);
}

TEST_F(LaSgd, WarmsUpInLockstep) {
  test::ModelRun run = noisy_run(4, 100);
  run.options.steps = 1000;  // 2 % of that are 20
  run.movement = [](int rank, std::uint64_t step, float) {
    return step < 20 ? 0.01f : noise(rank, step);
  };
  run.seconds = [](int rank, std::uint64_t) { return rank == 2 ? 0.02 : 0.01; };
  const auto records = test::run_strategy(run);
  for (const test::ModelRecord& record : records) {
    EXPECT_GE(record.ended[19], 20 * 0.02) << "all wait for the slowest";
    EXPECT_LT(record.ended[19], 20 * 0.02 + 0.1);
  }
  EXPECT_LT(records[0].ended[60], 0.02 * 20 + 0.1 + 0.01 * 41);
}

TEST(SynchronousSteps, FollowTheLearningRateWithinLimits) {
  RunOptions run;
  EXPECT_EQ(synchronous_steps(run), 10u) << "of an unknown length";
  run.steps = 1000;
  EXPECT_EQ(synchronous_steps(run), 20u);
  run.warmup_steps = 70;
  EXPECT_EQ(synchronous_steps(run), 70u);
  run.steps = 0;
  EXPECT_EQ(synchronous_steps(run), 70u);
  run.steps = 1000;
  run.warmup_steps = 400;
  EXPECT_EQ(synchronous_steps(run), 100u);
}

TEST_F(LaSgd, GoesOnFromACheckpoint) {
  for (const char* spec : {"lasgd:bits=32", "lasgd:bits=4"}) {
    test::ModelRun run = noisy_run(4, 40);
    run.spec = spec;
    run.network = Network{3e3, Seconds(1e-3)};
    std::vector<Payload> states(4);
    std::vector<std::vector<float>> models(4);
    std::vector<double> periods(4), periods_after(4);
    test::run_strategy(run, [&](test::StrategyDriver& driver, MutFloats params) {
      if (driver.step() != 25) return;
      driver.quiesce(params);
      const auto rank = static_cast<std::size_t>(driver.wire().rank());
      states[rank] = driver.save();
      models[rank].assign(params.begin(), params.end());
      periods[rank] = period_of(driver);
    });
    JoinOptions options;
    options.size = 4;
    std::vector<std::uint64_t> samples(4);
    run_workers("sim", options, [&](Transport& wire) {
      const auto rank = static_cast<std::size_t>(wire.rank());
      const Layout layout{{{"all", 0, {run.numel}}}, run.numel};
      test::StrategyDriver driver(wire, spec, layout, {}, {}, 25);
      driver.load(states[rank]);
      driver.begin(models[rank]);
      periods_after[rank] = period_of(driver);
      driver.end(models[rank]);
      samples[rank] = driver.global_samples();
    });
    for (const auto& model : models) EXPECT_EQ(model, models[0]);
    EXPECT_NEAR(models[0][0], 0.5 + all_noise(4, 25), 1e-4);
    EXPECT_EQ(samples[0], samples[3]);
    EXPECT_GT(samples[0], 0u);
    EXPECT_EQ(periods_after, periods);
    EXPECT_GT(periods[0], 3);
    const bool few = std::string_view(spec) == "lasgd:bits=4";
    EXPECT_THROW(make_strategy(few ? "lasgd:bits=32" : "lasgd:bits=4")->load(states[0]), WireError);
  }
}

TEST_F(LaSgd, AModelThatIsNotFiniteEndsTheRunOnAllRanks) {
  test::ModelRun run = noisy_run(4, 300);
  run.movement = [](int rank, std::uint64_t step, float) {
    return rank == 2 && step == 30 ? std::numeric_limits<float>::infinity() : 0.01f;
  };
  EXPECT_THROW(test::run_strategy(run), Error);
}

TEST_F(LaSgd, RepeatsBitForBit) {
  test::ModelRun run = noisy_run(5, 100);
  run.seconds = [](int rank, std::uint64_t) { return 0.01 + 0.003 * rank; };
  const auto first = test::run_strategy(run), second = test::run_strategy(run);
  for (std::size_t rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(first[rank].before_end, second[rank].before_end);
    EXPECT_EQ(first[rank].ended, second[rank].ended);
  }
}

TEST(LaSgdKeys, AreRefusedByName) {
  const auto refusal = [](const char* spec) -> std::string {
    try {
      make_strategy(spec);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("lasgd:period=4,max=8"), "accepted");
  EXPECT_NE(refusal("lasgd:period=0").find("period is not allowed (0)"), std::string::npos);
  EXPECT_NE(refusal("lasgd:max=soon").find("max is not allowed (soon)"), std::string::npos);
  EXPECT_NE(refusal("lasgd:period=9,max=8").find("below period"), std::string::npos);
}

TEST(LaSgdThreads, MixesAndAgreesWithRealThreads) {
  test::ModelRun run = noisy_run(4, 300);
  run.backend = "threads";
  run.network.reset();
  run.numel = 20'000;
  run.seconds = [](int rank, std::uint64_t) { return 1e-4 * (1 + rank); };
  const auto records = test::run_strategy(run);
  EXPECT_TRUE(test::replicas_are_the_same(records));
  EXPECT_NEAR(records[0].params[0], 0.5 + all_noise(4, 300), 1e-3);
  EXPECT_GT(metric(records, "rounds"), 0);
}

TEST(LaSgdThreads, AWorkerThatFailsEndsTheRunSoon) {
  test::ModelRun run = noisy_run(4, 1'000'000);
  run.backend = "threads";
  run.network.reset();
  run.seconds = [](int, std::uint64_t) { return 1e-4; };
  const Seconds start = system_runtime().now();
  EXPECT_THROW(test::run_strategy(run,
                                  [](test::StrategyDriver& driver, MutFloats) {
                                    if (driver.wire().rank() == 1 && driver.step() == 21)
                                      throw Error("planned");
                                  }),
               Error);
  EXPECT_LT((system_runtime().now() - start).count(), 60);
}

}  // namespace
}  // namespace thinwire::strategy
