// Whole runs, with ranks as threads of this process.
#include "trainer/train.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>

#include "thinwire/engines.h"
#include "trainer/data/loader.h"
#include "trainer/evaluate.h"
#include "trainer/flat_model.h"
#include "trainer/models/network.h"
#include "trainer/schedule.h"

namespace thinwire::trainer {
namespace {

namespace fs = std::filesystem;

TrainOptions options_for(std::size_t batch, std::uint64_t steps) {
  TrainOptions options;
  options.model = "mlp";
  options.batch = batch;
  options.steps = steps;
  return options;
}

const DataPair& digits() {
  static const DataPair data = load_data("digits", 1);
  return data;
}

struct Outcome {
  TrainResult result;
  std::vector<double> losses;  // of rank 0, step by step
};

Outcome run(const TrainOptions& options, int workers, const std::string& engine = "threads",
            const DataPair& data = digits()) {
  Outcome outcome;
  Observer watching;
  watching.step = [&](const StepReport& report) { outcome.losses.push_back(report.loss); };
  JoinOptions join;
  join.size = workers;
  if (engine == "sim") join.network = thinwire::Network::parse("1gbit,0.1ms");
  run_workers(engine, join, [&](Transport& wire) {
    const Observer silent;
    const TrainResult result = train(wire, options, data, wire.rank() == 0 ? watching : silent);
    if (wire.rank() == 0) outcome.result = result;
  });
  return outcome;
}

// What anybody would write for one worker.
std::vector<double> plain_sgd(const TrainOptions& options) {
  const auto network = make_network(options.model, digits().train->shape(), options.seed);
  torch::optim::SGD optimizer(
      network->parameters(),
      torch::optim::SGDOptions(options.learning_rate).momentum(options.descent.momentum));
  Loader loader(*digits().train, {0, 1, options.batch, options.seed, 0});
  std::vector<double> losses;
  for (std::uint64_t step = 0; step < options.steps; ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss =
        loss_of(*network, to_tensors(loader.next(), digits().train->shape()));
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

TEST(Train, OneWorkerIsPlainSgd) {
  const TrainOptions options = options_for(32, 30);
  const std::vector<double> expected = plain_sgd(options);
  const std::vector<double> losses = run(options, 1).losses;
  ASSERT_EQ(losses.size(), expected.size());
  EXPECT_EQ(losses[0], expected[0]);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4) << i;
}

TEST(Train, MoreWorkersWithTheSameGlobalBatchFollowTheSameCurve) {
  const double one = run(options_for(64, 40), 1).result.test.loss;
  for (const int workers : {2, 4}) {
    const Outcome many = run(options_for(64 / static_cast<std::size_t>(workers), 40), workers);
    EXPECT_TRUE(many.result.replicas_identical);
    EXPECT_NEAR(many.result.test.loss, one, 1e-3 * one) << workers;
  }
}

TEST(Train, TheSameSeedIsTheSameRunOnEveryTransport) {
  const TrainOptions options = options_for(16, 20);
  const Outcome threads = run(options, 3);
  EXPECT_EQ(run(options, 3).losses, threads.losses);
  for (const Engine& engine : engines()) {
    if (engine.name != "sim") continue;
    const Outcome simulated = run(options, 3, "sim");
    EXPECT_EQ(simulated.losses, threads.losses);
    EXPECT_EQ(simulated.result.test.loss, threads.result.test.loss);
  }
}

TEST(Train, SimulatedTimeIsComputeAndWire) {
  if (std::ranges::none_of(engines(), [](const Engine& e) { return e.name == "sim"; })) {
    GTEST_SKIP() << "sim is not in this build";
  }
  TrainOptions options = options_for(8, 10);
  options.step_time = Seconds(0.5);
  options.slow = {{1, 3.0}};
  const TrainResult result = run(options, 2, "sim").result;
  EXPECT_GT(result.total.count(), 15.0);  // the straggler's 10 steps of 1.5 s
  EXPECT_LT(result.total.count(), 15.5);
  EXPECT_NEAR(result.compute.count(), 10.0, 1e-6);  // mean of 5 s and 15 s
  EXPECT_NEAR(result.wait.count(), 5.0, 0.1);       // half the workers wait 10 s
}

class TemporaryDirectory {
 public:
  TemporaryDirectory()
      : path_(fs::path(testing::TempDir()) / ("thinwire_train_" + std::to_string(getpid()))) {
    fs::remove_all(path_);
  }
  ~TemporaryDirectory() { fs::remove_all(path_); }
  std::string str() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Train, ResumingContinuesBitForBit) {
  const TemporaryDirectory directory;
  TrainOptions options = options_for(16, 24);
  options.lr_schedule = "cosine:warmup=0.01";
  options.out = directory.str() + "/whole";
  const Outcome whole = run(options, 2);

  options.out = directory.str() + "/parts";
  options.save_every = 7;
  options.steps = 24;
  TrainOptions first = options;
  // Interrupted after step 16: the last checkpoint is that of step 14.
  EXPECT_THROW(
      {
        JoinOptions join;
        join.size = 2;
        Observer stop;
        stop.step = [](const StepReport& report) {
          if (report.step == 16) throw Error("interrupted");
        };
        run_workers("threads", join, [&](Transport& wire) {
          train(wire, first, digits(), wire.rank() == 0 ? stop : Observer());
        });
      },
      Error);
  options.resume = true;
  const Outcome rest = run(options, 2);
  ASSERT_EQ(rest.losses.size(), 10u);  // steps 15 ... 24
  EXPECT_TRUE(std::ranges::equal(rest.losses, std::span(whole.losses).subspan(14)));
  EXPECT_EQ(rest.result.test.loss, whole.result.test.loss);
  const std::string last = "/checkpoints/step-000000000024-model.ck";
  EXPECT_EQ(contents(directory.str() + "/whole" + last),
            contents(directory.str() + "/parts" + last));
}

// One example has a pixel that is not a number.
class Poisoned final : public Dataset {
 public:
  explicit Poisoned(const Dataset& data) : data_(data) {}
  ExampleShape shape() const override { return data_.shape(); }
  std::size_t size() const override { return 200; }
  void read(std::size_t index, const Augmentation* augmentation,
            const ExampleSlot& slot) const override {
    data_.read(index, augmentation, slot);
    if (index == 17) slot.pixels[5] = std::numeric_limits<float>::quiet_NaN();
  }

 private:
  const Dataset& data_;
};

DataPair poisoned() {
  return {std::make_unique<Poisoned>(*digits().train), std::make_unique<Poisoned>(*digits().test)};
}

TEST(Train, ANonFiniteGradientSkipsTheStepOnAllRanks) {
  TrainOptions options = options_for(25, 16);  // two epochs of 8 steps
  const TrainResult result = run(options, 1, "threads", poisoned()).result;
  EXPECT_EQ(result.skipped_steps, 2u);
  options = options_for(5, 20);  // two epochs of 10 steps on 4 workers
  const TrainResult many = run(options, 4, "threads", poisoned()).result;
  EXPECT_EQ(many.skipped_steps, 2u);
  EXPECT_TRUE(many.replicas_identical);
  options.session.nonfinite = NonFinite::stop;
  EXPECT_THROW(run(options, 4, "threads", poisoned()), Error);
}

TEST(Train, DifferentReplicasAreFoundAndNamed) {
  JoinOptions join;
  join.size = 3;
  run_workers("threads", join, [](Transport& wire) {
    const auto network = make_network("mlp", digits().train->shape(), 1);
    FlatModel model(*network);
    Session session(wire, {});
    session.begin(model.view(), 0);
    EXPECT_NO_THROW(session.check_replicas(model.view()));
    if (wire.rank() == 2) model.params()[300 * 784 + 3] += 1e-6f;
    try {
      session.check_replicas(model.view());
      ADD_FAILURE() << "not found";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("'hidden1.bias' of rank 2"), std::string::npos) << text;
    }
  });
}

TEST(Train, AThousandStepsGrowNoMemory) {
  TrainOptions options = options_for(4, 1000);
  std::vector<std::size_t> used;
  std::mutex mutex;
  Observer watching;
  watching.step = [&](const StepReport& report) {
    if (report.step == 200 || report.step == 1000) used.push_back(mallinfo2().uordblks);
  };
  JoinOptions join;
  run_workers("threads", join, [&](Transport& wire) { train(wire, options, digits(), watching); });
  ASSERT_EQ(used.size(), 2u);
  // An epoch's order is shuffled anew now and then; nothing else may change.
  EXPECT_LT(used[1], used[0] + 200'000);
}

TEST(RunLength, InStepsSamplesOrEpochs) {
  EXPECT_EQ(total_steps({0, 7, 0}, 1000, 10, 4), 7u);
  EXPECT_EQ(total_steps({0, 0, 1000}, 1000, 10, 4), 25u);
  EXPECT_EQ(total_steps({2, 0, 0}, 1010, 10, 4), 52u);
  EXPECT_EQ(total_steps({0.5, 0, 0}, 1010, 10, 4), 13u);
}

}  // namespace
}  // namespace thinwire::trainer
