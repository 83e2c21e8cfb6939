// Gossip as a whole, in simulated time.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/random.h"
#include "testing/expect.h"
#include "testing/model_run.h"

namespace thinwire::strategy {
namespace {

const char* const kSpecs[] = {
    "gossip:kappa=0,peers=random,bits=32",
    "gossip:kappa=0,peers=ring,bits=32",
    "gossip:kappa=0,peers=exp,bits=32",
    "gossip:kappa=0,exchange=pair,peers=random",
    "gossip:kappa=0,exchange=pair,peers=ring",
    "gossip:kappa=0,exchange=pair,peers=exp",
    "gossip:trigger=period,period=3,peers=random,bits=32",
    "gossip:trigger=budget,budget=0.3,peers=random,bits=32",
    "gossip:kappa=0,peers=random,bits=8",
    "gossip:kappa=0,peers=exp,bits=4",
    "gossip",
};

class Gossip : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  }
};

float apart(int rank, std::size_t element) {
  return base::unit_float(
      base::philox(3, static_cast<std::uint64_t>(rank), element, base::Purpose::test)[0]);
}

float noise(int rank, std::uint64_t step) {
  const auto stream = static_cast<std::uint64_t>(rank);
  return 0.1f * (base::unit_float(base::philox(5, stream, step, base::Purpose::test)[0]) - 0.5f);
}

// Returns a run of different models without steps, so that only gossip changes them.
test::ModelRun constant_models(const std::string& spec, int workers) {
  test::ModelRun run;
  run.spec = spec;
  run.workers = workers;
  run.start = apart;
  run.network = Network{1e6, Seconds(1e-3)};
  return run;
}

TEST_F(Gossip, EndsWithTheMeanOfAllModelsOnEveryRank) {
  for (const char* spec : kSpecs) {
    for (const int workers : {1, 2, 3, 4, 5, 8, 9}) {
      const test::ModelRun run = constant_models(spec, workers);
      const auto records = test::run_strategy(run);
      EXPECT_TRUE(test::replicas_are_the_same(records)) << spec << ", " << workers;
      for (std::size_t i = 0; i < run.numel; ++i) {
        double mean = 0;
        for (int rank = 0; rank < workers; ++rank)
          mean += static_cast<double>(apart(rank, i)) / workers;
        ASSERT_NEAR(records[0].params[i], mean, 1e-5) << spec << ", " << workers;
      }
    }
  }
}

TEST_F(Gossip, BringsModelsTogether) {
  for (const char* spec :
       {kSpecs[0], kSpecs[2], kSpecs[3], kSpecs[4], kSpecs[5], kSpecs[6], kSpecs[8], kSpecs[9]}) {
    test::ModelRun run = constant_models(spec, 8);
    run.steps = 200;
    EXPECT_LT(test::run_strategy(run)[0].stats.consensus_distance, 0.02) << spec;
    run.steps = 1;
    EXPECT_GT(test::run_strategy(run)[0].stats.consensus_distance, 0.2) << spec;
  }
}

TEST_F(Gossip, LosesNoMovementUnderDelay) {
  for (const char* spec : kSpecs) {
    for (const double bandwidth : {0.0, 1e6, 2e4}) {  // 2e4: a message takes eight steps
      test::ModelRun run;
      run.spec = spec;
      run.workers = 5;
      run.steps = 60;
      run.network = Network{bandwidth, Seconds(2e-3)};
      run.movement = [](int rank, std::uint64_t step, float) { return noise(rank, step); };
      run.seconds = [](int rank, std::uint64_t step) {
        return 0.005 + 0.01 * std::abs(static_cast<double>(noise(rank, step + 1000))) + rank * 1e-3;
      };
      const auto records = test::run_strategy(run);
      ASSERT_TRUE(test::replicas_are_the_same(records)) << spec;
      if (std::string(spec).find("pair") == std::string::npos) continue;
      double expected = 0.5;  // with pairs all models count the same
      for (int rank = 0; rank < run.workers; ++rank) {
        for (std::uint64_t step = 0; step < run.steps; ++step) {
          expected += static_cast<double>(noise(rank, step)) / run.workers;
        }
      }
      EXPECT_NEAR(records[0].params[7], expected, 1e-4) << spec << ", " << bandwidth;
    }
  }
}

// Each worker descends to the same point, with gradients of its own.
TEST_F(Gossip, ConvergesWithQuantizedMessages) {
  test::ModelRun run;
  run.numel = 600;
  run.steps = 400;
  run.start = apart;
  run.network = Network{1e8, Seconds(1e-4)};
  run.movement = [](int rank, std::uint64_t step, float now) {
    const float rate = 0.1f * (1 - static_cast<float>(step) / 400);
    return rate * (2 - now + 10 * noise(rank, step));
  };
  std::map<int, std::vector<test::ModelRecord>> records;
  for (const int bits : {32, 8, 4}) {
    run.spec = "gossip:trigger=period,period=2,peers=exp,bits=" + std::to_string(bits);
    records[bits] = test::run_strategy(run);
    EXPECT_TRUE(test::replicas_are_the_same(records[bits]));
    EXPECT_LT(metric(records[bits], "blocks_out_of_range"), 0.01) << bits;
    EXPECT_NEAR(records[bits][0].params[7], records[32][0].params[7], 0.01) << bits;
    EXPECT_LT(records[bits][0].stats.consensus_distance, 0.02) << bits;
  }
  EXPECT_NEAR(records[32][0].params[7], 2, 0.1);
}

TEST(GossipBits, AreForPushSumAlone) {
  const auto error =
      test::must_throw<ConfigError>([] { make_strategy("gossip:exchange=pair,bits=4"); });
  EXPECT_TRUE(test::has(error.what(), "bits=4 needs exchange=pushsum"));
  EXPECT_NO_THROW(make_strategy("gossip:exchange=pair,bits=32"));
  EXPECT_NO_THROW(make_strategy("gossip:exchange=pair"));
  EXPECT_THROW(make_strategy("gossip:bits=5"), ConfigError);
}

TEST_F(Gossip, RepeatsBitForBit) {
  test::ModelRun run;
  run.spec = "gossip:kappa=3,peers=random,bits=32";
  run.workers = 6;
  run.steps = 150;
  run.network = Network{1e5, Seconds(1e-3)};
  run.movement = [](int rank, std::uint64_t step, float) { return noise(rank, step); };
  const auto first = test::run_strategy(run), second = test::run_strategy(run);
  EXPECT_EQ(first[0].params, second[0].params);
  EXPECT_EQ(first[3].ended, second[3].ended);
  EXPECT_EQ(metric(first, "fires"), metric(second, "fires"));
}

TEST_F(Gossip, KappaOfZeroIsGossipInEveryStep) {
  test::ModelRun run;
  run.spec = "gossip:kappa=0";
  run.network = Network{1e8, Seconds(1e-4)};
  run.movement = [](int rank, std::uint64_t step, float) { return noise(rank, step); };
  test::ModelRun every = run;
  every.spec = "gossip:trigger=period,period=1";
  const auto adaptive = test::run_strategy(run), periodic = test::run_strategy(every);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(adaptive[rank].before_end, periodic[rank].before_end);
  }
  EXPECT_EQ(metric(adaptive, "messages_per_worker_step"), 1.0);
  EXPECT_EQ(metric(adaptive, "interval_mean"), 1.0);
}

TEST_F(Gossip, SendsFewBitsByDefault) {
  test::ModelRun run;
  run.steps = 400;
  run.numel = 2560;
  run.network = Network{1e8, Seconds(1e-4)};
  run.movement = [](int rank, std::uint64_t step, float) { return noise(rank, step); };
  const auto bytes = [&](const std::string& spec) {
    run.spec = spec;
    return static_cast<double>(test::run_strategy(run)[0].bytes_sent);
  };
  const double few = bytes("gossip");
  EXPECT_EQ(few, bytes("gossip:kappa=0.25,peers=exp,bits=4"));
  EXPECT_LT(few, bytes("gossip:bits=32") / 3);
}

TEST_F(Gossip, AloneIsPlainSgd) {
  for (const char* spec : kSpecs) {
    test::ModelRun run;
    run.spec = spec;
    run.workers = 1;
    run.movement = [](int rank, std::uint64_t step, float) { return noise(rank, step); };
    float expected = 0.5f;
    for (std::uint64_t step = 0; step < run.steps; ++step) expected += noise(0, step);
    const auto records = test::run_strategy(run);
    EXPECT_EQ(records[0].params[0], expected);
    EXPECT_EQ(records[0].messages_sent, 0u);
  }
}

TEST_F(Gossip, SendsLessTheLargerKappaIs) {
  std::map<int, double> rates;
  for (const int kappa : {2, 8, 32}) {
    test::ModelRun run;
    run.spec = "gossip:kappa=" + std::to_string(kappa);
    run.steps = 600;
    run.movement = [](int rank, std::uint64_t step, float) { return 0.01f + noise(rank, step); };
    rates[kappa] = metric(test::run_strategy(run), "messages_per_worker_step");
  }
  EXPECT_GT(rates[2], 2 * rates[8]);
  EXPECT_GT(rates[8], 2 * rates[32]);
  EXPECT_GT(rates[32], 0);
}

TEST_F(Gossip, HoldsABudgetOfMessages) {
  test::ModelRun run;
  run.spec = "gossip:trigger=budget,budget=0.1";
  run.steps = 3000;
  run.movement = [](int rank, std::uint64_t step, float) { return 0.01f * noise(rank, step); };
  EXPECT_NEAR(metric(test::run_strategy(run), "messages_per_worker_step"), 0.1, 0.015);
}

// One step of a worker takes 5 s.
TEST_F(Gossip, APausedWorkerDelaysNoOther) {
  for (const char* spec : kSpecs) {
    test::ModelRun run;
    run.spec = spec;
    run.steps = 100;
    run.network = Network{1e7, Seconds(1e-4)};
    run.movement = [](int rank, std::uint64_t step, float) { return noise(rank, step); };
    run.seconds = [](int rank, std::uint64_t step) { return rank == 1 && step == 20 ? 5 : 0.01; };
    const auto records = test::run_strategy(run);
    EXPECT_NEAR(records[0].ended.back(), 1.0, 1e-6) << spec;
    EXPECT_NEAR(records[1].ended.back(), 5.99, 1e-6) << spec;
    EXPECT_TRUE(test::replicas_are_the_same(records)) << spec;
  }
}

// One of the connections of a worker stalls, not only its training.
TEST_F(Gossip, AStalledConnectionDelaysNoOther) {
  test::ModelRun run;
  run.spec = "gossip:kappa=0";
  run.steps = 100;
  run.movement = [](int rank, std::uint64_t step, float) { return noise(rank, step); };
  for (int operation = 10; operation < 40; operation += 7) {
    run.fault = "stall:rank=1,at=" + std::to_string(operation) + ",seconds=5";
    const auto records = test::run_strategy(run);
    for (const test::ModelRecord& record : records) EXPECT_NEAR(record.ended.back(), 1.0, 1e-6);
    EXPECT_TRUE(test::replicas_are_the_same(records));
  }
}

TEST_F(Gossip, EndsWhenAllTogetherHaveDoneEnough) {
  test::ModelRun run;
  run.spec = "gossip:kappa=2";
  run.options.samples = 1000;
  run.samples_per_step = 2;
  run.movement = [](int rank, std::uint64_t step, float) { return noise(rank, step); };
  test::expect_work_by_speed(run, 3, 5);
}

TEST_F(Gossip, GoesOnFromACheckpoint) {
  for (const char* spec :
       {"gossip:kappa=2", "gossip:kappa=0,exchange=pair", "gossip:kappa=0,bits=4"}) {
    test::ModelRun run = constant_models(spec, 4);
    run.steps = 25;
    run.network = Network{2e4, Seconds(1e-3)};  // messages are on their way most of the time
    run.movement = [](int rank, std::uint64_t step, float) { return noise(rank, step); };
    const auto records = test::resume_and_end(run, test::checkpoint_at(run, 15));
    // No model that was in flight is missing.
    double expected = 0;
    for (int rank = 0; rank < 4; ++rank) {
      expected += apart(rank, 3) / 4;
      for (std::uint64_t step = 0; step < 15; ++step)
        expected += static_cast<double>(noise(rank, step)) / 4;
    }
    EXPECT_TRUE(test::replicas_are_the_same(records));
    const double tolerance = std::string(spec).find("pair") == std::string::npos ? 0.3 : 1e-4;
    EXPECT_NEAR(records[0].params[3], expected, tolerance) << spec;
  }
}

TEST_F(Gossip, AModelThatIsNotFiniteEndsTheRunOnAllRanks) {
  test::ModelRun run;
  run.spec = "gossip:kappa=4";
  run.steps = 300;
  run.movement = [](int rank, std::uint64_t step, float) {
    return rank == 2 && step == 30 ? std::numeric_limits<float>::quiet_NaN() : 0.01f;
  };
  try {
    test::run_strategy(run);
    ADD_FAILURE() << "not noticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1 of 4 workers"), std::string::npos) << error.what();
  }
}

// On every backend that runs in one process, the background tasks of a worker that fails end, and
// the other workers notice the failure.
TEST(GossipFailure, EndsTheRunSoon) {
  for (const char* backend : {"threads", "sim"}) {
    if (!test::has_backend(backend)) continue;
    for (const char* spec : {"gossip:kappa=0", "gossip:kappa=0,exchange=pair"}) {
      test::ModelRun run;
      run.spec = spec;
      run.backend = backend;
      run.steps = 1'000'000;
      run.seconds = [](int, std::uint64_t) { return 1e-4; };
      const Seconds start = system_runtime().now();
      try {
        test::run_strategy(run, [](test::StrategyDriver& driver, MutFloats) {
          if (driver.wire().rank() == 1 && driver.step() == 21) throw Error("planned");
        });
        ADD_FAILURE() << "went on";
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "planned");
      }
      EXPECT_LT((system_runtime().now() - start).count(), 60) << backend << ", " << spec;
    }
  }
}

TEST(GossipThreads, MixesAndAgreesWithRealThreads) {
  for (const char* spec : kSpecs) {
    test::ModelRun run = constant_models(spec, 4);
    run.backend = "threads";
    run.network.reset();
    run.numel = 5000;
    run.steps = 150;
    run.seconds = [](int rank, std::uint64_t) { return 1e-4 * (1 + rank); };
    const auto records = test::run_strategy(run);
    EXPECT_TRUE(test::replicas_are_the_same(records)) << spec;
    double mean = 0;
    for (int rank = 0; rank < 4; ++rank) mean += apart(rank, 3) / 4;
    // Only blocks that could not be read move the mean, and only while models are far apart.
    const bool all_read = metric(records, "blocks_out_of_range") == 0;
    EXPECT_NEAR(records[0].params[3], mean, all_read ? 1e-5 : 0.1) << spec;
  }
}

}  // namespace
}  // namespace thinwire::strategy
