// Tests whole runs of workers that exchange models, in simulated time or as threads.
#include <gtest/gtest.h>

#include "testing/scratch_directory.h"
#include "trainer/test_run.h"
#include "trainer/train.h"

namespace thinwire::trainer {
namespace {

const char* const kSpecs[] = {"localsgd", "gossip", "gossip:exchange=pair", "lasgd"};

TEST(SyncMode, OneWorkerIsPlainSgd) {
  const Outcome plain = run(options_for(32, 20), 1);
  for (const char* spec : kSpecs) {
    TrainOptions options = options_for(32, 20);
    options.session.strategy = spec;
    const Outcome one = run(options, 1);
    EXPECT_EQ(one.losses, plain.losses) << spec;
    EXPECT_EQ(one.result.test.loss, plain.result.test.loss) << spec;
  }
}

TEST(SyncMode, AllLearnAndEndWithOneModel) {
  if (!has_simulator()) GTEST_SKIP() << "sim is not in this build";
  for (const char* spec : kSpecs) {
    TrainOptions options = options_for(16, 120);
    options.session.strategy = spec;
    options.step_time = Seconds(0.01);
    options.eval_every = 50;
    const TrainResult result = run(options, 4, "sim").result;
    EXPECT_TRUE(result.replicas_identical) << spec;
    EXPECT_GT(result.test.accuracy, 0.8) << spec;
    EXPECT_GT(result.accuracy_worst_worker, 0.5) << spec;
    EXPECT_NEAR(static_cast<double>(result.samples), 4 * 16 * 120, 4 * 16 * 6) << spec;
    EXPECT_LT(result.bytes_per_worker_step, result.dense_bytes_per_worker_step) << spec;
  }
}

TEST(SyncMode, AStragglerDelaysOnlyStrategiesThatWaitForIt) {
  if (!has_simulator()) GTEST_SKIP() << "sim is not in this build";
  const auto seconds = [](const char* spec) {
    TrainOptions options = options_for(8, 80);
    options.session.strategy = spec;
    options.step_time = Seconds(0.1);
    options.slow = {{1, 4.0}};
    const TrainResult result = run(options, 4, "sim").result;
    EXPECT_TRUE(result.replicas_identical) << spec;
    return result.total.count();
  };
  EXPECT_GT(seconds("dense"), 80 * 0.4);
  EXPECT_GT(seconds("localsgd"), 80 * 0.4);
  // With the straggler, the four workers have the speed of 3.25 fast ones.
  EXPECT_LT(seconds("gossip"), 80 * 0.1 * 4 / 3.25 * 1.15);
  EXPECT_LT(seconds("lasgd"), 80 * 0.1 * 4 / 3.25 * 1.5);  // its warm-up waits
}

TEST(SyncMode, TestsCostNeitherTimeNorBytes) {
  if (!has_simulator()) GTEST_SKIP() << "sim is not in this build";
  for (const char* spec : {"dense", "localsgd"}) {
    TrainOptions options = options_for(16, 40);
    options.session.strategy = spec;
    options.step_time = Seconds(0.01);
    const TrainResult without = run(options, 3, "sim").result;
    options.eval_every = 4;
    const TrainResult with = run(options, 3, "sim").result;
    // If they were counted, nine tests would take a fifteenth more time, because the models are
    // sent. After a test, workers wait a little less for each other.
    EXPECT_NEAR(with.total / without.total, 1, 0.01) << spec;
    // The remaining bytes are the sums of nine tests, a few numbers each.
    EXPECT_LT(with.bytes_sent - without.bytes_sent, 9 * 3 * 1024) << spec;
  }
}

TEST(SyncMode, ResumesWithTheModelOfEachRank) {
  for (const char* spec : kSpecs) {
    const test::ScratchDirectory directory;
    TrainOptions options = options_for(16, 30);
    options.session.strategy = spec;
    options.out = directory.str() + "/whole";
    const Outcome whole = run(options, 3);
    options.out = directory.str() + "/parts";
    options.steps = 13;  // not a multiple of localsgd's period
    run(options, 3);
    options.steps = 30;
    options.resume = true;
    const Outcome rest = run(options, 3);
    EXPECT_TRUE(rest.result.replicas_identical) << spec;
    EXPECT_NEAR(rest.result.test.loss, whole.result.test.loss, 0.5 * whole.result.test.loss);
    if (std::string(spec) == "localsgd") {
      EXPECT_EQ(rest.result.test.loss, whole.result.test.loss) << "bit for bit";
    }
  }
}

}  // namespace
}  // namespace thinwire::trainer
