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
    if (!test::has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
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

test::ModelRun walking(int workers, std::uint64_t steps) {
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
    for (const char* spec : {"lasgd", "lasgd:period=1", "lasgd:period=7"}) {
      test::ModelRun run = walking(workers, 60);
      run.spec = spec;
      const auto records = test::play(run);
      ASSERT_TRUE(test::replicas_are_the_same(records)) << workers;
      EXPECT_NEAR(records[0].params[3], 0.5 + all_noise(workers, 60), 1e-4) << workers;
    }
  }
}

// An all-reduce of many steps: nothing that a worker does meanwhile is lost, and the period adapts.
TEST_F(LaSgd, ARoundMayTakeManySteps) {
  test::ModelRun run = walking(4, 400);
  run.network = Network{3e4, Seconds(1e-3)};  // a round takes about ten steps
  const auto records = test::play(run);
  EXPECT_TRUE(test::replicas_are_the_same(records));
  EXPECT_NEAR(records[0].params[0], 0.5 + all_noise(4, 400), 1e-4);
  EXPECT_GT(metric(records, "overlap_steps"), 3);
  EXPECT_GT(metric(records, "period"), 3);
  EXPECT_GT(metric(records, "rounds"), 10);
  EXPECT_EQ(metric(records, "blocked"), 0);
  // Nobody waited: every step took what it took.
  for (const test::ModelRecord& record : records) EXPECT_NEAR(record.ended.back(), 4.0, 1e-6);
  EXPECT_LT(records[0].stats.consensus_distance, 1.0);
}

// A test of the model between two steps is no step: the period stays near what it was.
TEST_F(LaSgd, APauseIsNoStep) {
  test::ModelRun run = walking(4, 400);
  run.network = Network{3e4, Seconds(1e-3)};  // a round takes about ten steps
  const double before = metric(test::play(run), "period");
  run.seconds = [](int, std::uint64_t step) { return step == 398 ? 1.0 : 0.01; };
  EXPECT_GT(metric(test::play(run), "period"), before / 2);
}

// Workers who wait because of their bound begin the round they wait for.
TEST_F(LaSgd, ABoundShortensThePeriod) {
  test::ModelRun run = walking(4, 400);
  run.network = Network{3e4, Seconds(1e-3)};  // a round takes about ten steps
  run.spec = "lasgd:max=2";
  const auto records = test::play(run);
  EXPECT_TRUE(test::replicas_are_the_same(records));
  EXPECT_EQ(metric(records, "period"), 2);
  EXPECT_GT(metric(records, "rounds"), 150);
}

TEST_F(LaSgd, RoundsBringModelsTogether) {
  test::ModelRun run = walking(8, 60);
  run.start = [](int rank, std::size_t) { return static_cast<float>(rank); };
  run.movement = [](int, std::uint64_t, float) { return 0.0f; };
  for (const double slow : {1.0, 7.0}) {
    run.seconds = [slow](int rank, std::uint64_t) { return rank == 5 ? 0.01 * slow : 0.01; };
    const auto records = test::play(run);
    EXPECT_LT(records[0].stats.consensus_distance, 1e-5) << slow;
    EXPECT_NEAR(records[0].params[0], 3.5, 1e-5) << slow;
  }
}

// Workers in the same bowl, with momentum, at a rate that each of them bears alone. Rounds take
// several steps: a correction that came in full, and at once, would throw the models out of it.
TEST_F(LaSgd, ALateAverageDoesNotDestabilize) {
  for (const double latency : {0.003, 0.02, 0.05}) {
    for (const float curvature : {0.02f, 0.2f, 1.0f, 2.0f}) {
      test::ModelRun run = walking(4, 800);
      run.network = Network{1e9, Seconds(latency)};
      run.numel = 1;
      run.plan.sgd.momentum = 0.9f;
      std::vector<float> velocity(4);
      run.movement = [&](int rank, std::uint64_t step, float now) {
        float& speed = velocity[static_cast<std::size_t>(rank)];
        speed = 0.9f * speed + curvature * (now - 3 + noise(rank, step));
        return -speed;
      };
      const auto records = test::play(run);
      for (const test::ModelRecord& record : records) {
        EXPECT_NEAR(record.before_end[0], 3, 1) << latency << ", " << curvature;
      }
    }
  }
}

TEST_F(LaSgd, AloneIsPlainSgd) {
  test::ModelRun run = walking(1, 30);
  run.plan.steps = 30;
  float expected = 0.5f;
  for (std::uint64_t step = 0; step < 30; ++step) expected += noise(0, step);
  const auto records = test::play(run);
  EXPECT_EQ(records[0].params[0], expected);
  EXPECT_EQ(records[0].messages_sent, 0u);
}

TEST_F(LaSgd, FastWorkersDoMoreOfTheWork) {
  test::ModelRun run = walking(4, 0);
  run.plan.samples = 2000;
  run.samples_per_step = 4;
  test::expect_work_by_speed(run, 0, 4);
}

// Its training stands still, but its rounds go on with the model of its last step.
TEST_F(LaSgd, AWorkerInALongStepHoldsUpNobody) {
  test::ModelRun run = walking(4, 200);
  run.spec = "lasgd:max=16";
  run.seconds = [](int rank, std::uint64_t step) { return rank == 1 && step == 20 ? 5 : 0.01; };
  const auto records = test::play(run);
  EXPECT_NEAR(records[0].ended.back(), 2.0, 1e-6);
  EXPECT_EQ(metric(records, "blocked"), 0);
  EXPECT_NEAR(records[0].params[0], 0.5 + all_noise(4, 200), 1e-4);
}

// Its rounds stand still, too: the others go on up to the bound.
TEST_F(LaSgd, AStalledWorkerBlocksTheOthersAfterTheBound) {
  test::ModelRun run = walking(4, 200);
  run.spec = "lasgd:period=1,max=32";
  run.fault = "stall:rank=1,at=100,seconds=5";
  const auto records = test::play(run);
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
  test::ModelRun run = walking(4, 100);
  run.plan.steps = 1000;  // 2 % of that are 20
  run.movement = [](int rank, std::uint64_t step, float) {
    return step < 20 ? 0.01f : noise(rank, step);
  };
  run.seconds = [](int rank, std::uint64_t) { return rank == 2 ? 0.02 : 0.01; };
  const auto records = test::play(run);
  for (const test::ModelRecord& record : records) {
    EXPECT_GE(record.ended[19], 20 * 0.02) << "all wait for the slowest";
    EXPECT_LT(record.ended[19], 20 * 0.02 + 0.1);
  }
  EXPECT_LT(records[0].ended[60], 0.02 * 20 + 0.1 + 0.01 * 41);
}

TEST(SynchronousSteps, FollowTheLearningRateWithinLimits) {
  RunOptions run;
  EXPECT_EQ(synchronous_steps(run), 0u);
  run.steps = 1000;
  EXPECT_EQ(synchronous_steps(run), 20u);
  run.warmup_steps = 70;
  EXPECT_EQ(synchronous_steps(run), 70u);
  run.warmup_steps = 400;
  EXPECT_EQ(synchronous_steps(run), 100u);
}

TEST_F(LaSgd, GoesOnFromACheckpoint) {
  test::ModelRun run = walking(4, 40);
  run.network = Network{3e4, Seconds(1e-3)};
  std::vector<Payload> states(4);
  std::vector<std::vector<float>> models(4);
  test::play(run, [&](test::StrategyDriver& driver, MutFloats params) {
    if (driver.step() != 25) return;
    driver.quiesce(params);
    const auto rank = static_cast<std::size_t>(driver.wire().rank());
    states[rank] = driver.save();
    models[rank].assign(params.begin(), params.end());
  });
  JoinOptions options;
  options.size = 4;
  std::vector<std::uint64_t> samples(4);
  run_workers("sim", options, [&](Transport& wire) {
    const auto rank = static_cast<std::size_t>(wire.rank());
    const Layout layout{{{"all", 0, {run.numel}}}, run.numel};
    test::StrategyDriver driver(wire, "lasgd", layout, {}, {}, 25);
    driver.load(states[rank]);
    driver.begin(models[rank]);
    driver.end(models[rank]);
    samples[rank] = driver.global_samples();
  });
  for (const auto& model : models) EXPECT_EQ(model, models[0]);
  EXPECT_NEAR(models[0][0], 0.5 + all_noise(4, 25), 1e-4);
  EXPECT_EQ(samples[0], samples[3]);
  EXPECT_GT(samples[0], 0u);
}

TEST_F(LaSgd, AModelThatIsNotFiniteEndsTheRunOnAllRanks) {
  test::ModelRun run = walking(4, 300);
  run.movement = [](int rank, std::uint64_t step, float) {
    return rank == 2 && step == 30 ? std::numeric_limits<float>::infinity() : 0.01f;
  };
  EXPECT_THROW(test::play(run), Error);
}

TEST_F(LaSgd, RepeatsBitForBit) {
  test::ModelRun run = walking(5, 100);
  run.seconds = [](int rank, std::uint64_t) { return 0.01 + 0.003 * rank; };
  const auto first = test::play(run), second = test::play(run);
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
  EXPECT_NE(refusal("lasgd:period=0").find("period=0"), std::string::npos);
  EXPECT_NE(refusal("lasgd:max=soon").find("max=soon"), std::string::npos);
  EXPECT_NE(refusal("lasgd:period=9,max=8").find("below period"), std::string::npos);
}

TEST(LaSgdThreads, MixesAndAgreesWithRealThreads) {
  test::ModelRun run = walking(4, 300);
  run.engine = "threads";
  run.network.reset();
  run.numel = 20'000;
  run.seconds = [](int rank, std::uint64_t) { return 1e-4 * (1 + rank); };
  const auto records = test::play(run);
  EXPECT_TRUE(test::replicas_are_the_same(records));
  EXPECT_NEAR(records[0].params[0], 0.5 + all_noise(4, 300), 1e-3);
  EXPECT_GT(metric(records, "rounds"), 0);
}

TEST(LaSgdThreads, AWorkerThatFailsEndsTheRunSoon) {
  test::ModelRun run = walking(4, 1'000'000);
  run.engine = "threads";
  run.network.reset();
  run.seconds = [](int, std::uint64_t) { return 1e-4; };
  const Seconds start = system_runtime().now();
  EXPECT_THROW(test::play(run,
                          [](test::StrategyDriver& driver, MutFloats) {
                            if (driver.wire().rank() == 1 && driver.step() == 21)
                              throw Error("planned");
                          }),
               Error);
  EXPECT_LT((system_runtime().now() - start).count(), 20);
}

}  // namespace
}  // namespace thinwire::strategy
