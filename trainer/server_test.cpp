// Tests whole runs with a parameter server.
#include <gtest/gtest.h>

#include <filesystem>

#include "testing/scratch_directory.h"
#include "trainer/test_run.h"
#include "trainer/train.h"

namespace thinwire::trainer {
namespace {

TrainOptions options_of(const std::string& strategy, std::uint64_t steps = 60) {
  TrainOptions options = options_for(32, steps);
  options.session.strategy = strategy;
  options.session.check_every = 20;
  options.learning_rate = 0.05;
  return options;
}

TEST(Server, OnTheRanksOfWorkersTrains) {
  for (const char* spec : {"ps", "ps:select=mask,keep=1,servers=3"}) {
    const TrainResult result = run(options_of(spec, 150), 3).result;
    EXPECT_TRUE(result.replicas_identical) << spec;
    EXPECT_GT(result.test.accuracy, 0.8) << spec;
    EXPECT_EQ(result.samples, 3u * 32 * 150) << spec;
    EXPECT_LT(result.bytes_per_worker_step, result.dense_bytes_per_worker_step / 4) << spec;
  }
}

// Three workers give the same result with a dedicated server as with servers on their own ranks.
TEST(Server, ThatIsDedicatedTrainsOnNothing) {
  for (const std::string keys : {"density=0.02", "density=1"}) {
    const Outcome shared = run(options_of("ps:" + keys), 3);
    const Outcome dedicated = run(options_of("ps:servers=dedicated," + keys), 4);
    EXPECT_TRUE(dedicated.result.replicas_identical);
    EXPECT_EQ(dedicated.result.samples, shared.result.samples);
    EXPECT_EQ(dedicated.result.steps, shared.result.steps);
    EXPECT_NEAR(dedicated.result.test.loss, shared.result.test.loss, 1e-3) << keys;
    ASSERT_EQ(dedicated.of_workers.size(), shared.of_workers.size());
    EXPECT_NEAR(dedicated.of_workers[0].loss, shared.of_workers[0].loss, 1e-3) << keys;
    for (const double loss : dedicated.losses) EXPECT_EQ(loss, 0);  // of rank 0
  }
  EXPECT_EQ(training_workers("ps:servers=dedicated", 4), 3);
  EXPECT_EQ(training_workers("ps:servers=4", 4), 4);
  EXPECT_EQ(training_workers("dense", 4), 4);
}

// A dedicated server has no examples, so the statistics of norms are those of the worker alone.
TEST(Server, ThatIsDedicatedDoesNotSpoilTheStatisticsOfNorms) {
  TrainOptions options = options_of("ps:density=1,servers=dedicated", 6);
  options.model = "resnet20";
  options.batch = 8;
  const TrainResult served = run(options, 2).result;
  options.session.strategy = "dense";
  const TrainResult alone = run(options, 1).result;
  EXPECT_EQ(served.samples, alone.samples);
  EXPECT_NEAR(served.test.loss, alone.test.loss, 1e-3 * alone.test.loss);
}

TEST(Server, ResumesBitForBit) {
  namespace fs = std::filesystem;
  for (const char* spec : {"ps:keep=1,servers=2", "ps:select=mask,servers=dedicated"}) {
    const test::ScratchDirectory directory;
    const Outcome whole = run(options_of(spec, 40), 3);
    TrainOptions options = options_of(spec, 40);
    options.out = directory.str();
    options.save_every = 20;
    run(options, 3);
    for (const auto& file : fs::directory_iterator(directory.path() / "checkpoints")) {
      if (file.path().filename().string().starts_with("step-40")) fs::remove(file);
    }
    options.resume = true;
    const Outcome resumed = run(options, 3);
    EXPECT_EQ(resumed.result.test.loss, whole.result.test.loss) << spec;
  }
}

}  // namespace
}  // namespace thinwire::trainer
