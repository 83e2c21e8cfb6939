// Tests whole runs, with ranks that are threads of this process.
#include "trainer/train.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>

#include "testing/scratch_directory.h"
#include "thinwire/launch.h"
#include "trainer/data/loader.h"
#include "trainer/evaluate.h"
#include "trainer/flat_model.h"
#include "trainer/models/network.h"
#include "trainer/schedule.h"
#include "trainer/test_run.h"

namespace thinwire::trainer {
namespace {

namespace fs = std::filesystem;

// Trains one worker by a plain loop, without thinwire.
std::vector<double> plain_sgd(const TrainOptions& options) {
  const auto network = make_network(options.model, digits().train->shape(), options.seed);
  torch::optim::SGD optimizer(
      network->parameters(),
      torch::optim::SGDOptions(options.learning_rate).momentum(options.sgd.momentum));
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

TEST(Train, TheSameSeedIsTheSameRunOnEveryTransport) {
  const TrainOptions options = options_for(16, 20);
  const Outcome threads = run(options, 3);
  EXPECT_EQ(run(options, 3).losses, threads.losses);
  for (const TransportBackend& backend : transport_backends()) {
    if (backend.name != "sim") continue;
    const Outcome simulated = run(options, 3, "sim");
    EXPECT_EQ(simulated.losses, threads.losses);
    EXPECT_EQ(simulated.result.test.loss, threads.result.test.loss);
  }
}

TEST(Train, SimulatedTimeIsComputeAndWire) {
  if (std::ranges::none_of(transport_backends(),
                           [](const TransportBackend& e) { return e.name == "sim"; })) {
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
  ASSERT_EQ(result.stragglers.size(), 1u);
  EXPECT_EQ(result.stragglers[0].rank, 1);
  EXPECT_NEAR(result.stragglers[0].compute_ratio, 3, 1e-6);
  EXPECT_NEAR(result.stragglers[0].waited.count(), 10, 0.1);
}

TEST(Train, StragglersAreNamedOnRealTransports) {
  TrainOptions options = options_for(4, 20);
  options.step_time = Seconds(0.02);
  EXPECT_TRUE(run(options, 1).result.stragglers.empty());
  options.slow = {{1, 5.0}};
  const TrainResult result = run(options, 3).result;
  ASSERT_FALSE(result.stragglers.empty());
  EXPECT_EQ(result.stragglers[0].rank, 1);
  EXPECT_GT(result.stragglers[0].compute_ratio, 2);
  EXPECT_GT(result.stragglers[0].waited.count(), 0.8);  // of 20 x 0.08 s
}

std::ptrdiff_t threads_now() {
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

std::ptrdiff_t most_threads(const std::string& transport, int workers) {
  std::ptrdiff_t most = 0;
  Observer watching;
  watching.step = [&](const StepReport&) { most = std::max(most, threads_now()); };
  JoinOptions join;
  join.size = workers;
  run_workers(transport, join, [&](Transport& wire) {
    train(wire, options_for(4, 3), digits(), wire.rank() == 0 ? watching : Observer());
  });
  return most;
}

TEST(Train, SimulatedWorkersReadWithoutThreads) {
  if (std::ranges::none_of(transport_backends(),
                           [](const TransportBackend& e) { return e.name == "sim"; })) {
    GTEST_SKIP() << "sim is not in this build";
  }
  EXPECT_EQ(most_threads("sim", 9), most_threads("sim", 1));
  EXPECT_GE(most_threads("threads", 9), 18);  // a worker and a reader each
}

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Train, ResumingContinuesBitForBit) {
  const test::ScratchDirectory directory;
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

// The run was interrupted between its last checkpoint and its last test.
TEST(Train, ARunWithNothingLeftIsTestedAtTheTimeItTook) {
  const test::ScratchDirectory directory;
  TrainOptions options = options_for(16, 4);
  options.out = directory.str();
  run(options, 1);
  options.resume = true;
  Seconds tested{0};
  Observer watch;
  watch.evaluated = [&](const StepReport& report, const Evaluation&) { tested = report.time; };
  run_workers("threads", JoinOptions(),
              [&](Transport& wire) { train(wire, options, digits(), watch); });
  EXPECT_GT(tested, Seconds(0));
}

// A data set in which one example has a pixel that is NaN.
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
      ADD_FAILURE() << "the difference was not found";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("'hidden1.bias' of rank 2"), std::string::npos) << text;
    }
  });
}

struct MemoryUse {
  std::size_t heap = 0;  // allocated bytes, of all arenas and of blocks with mappings of their own
  std::size_t resident = 0;  // of the whole process
};

MemoryUse memory_now() {
  const struct mallinfo2 heap = mallinfo2();
  std::size_t virtual_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> virtual_pages >> resident_pages;
  return {heap.uordblks + heap.hblkhd,
          resident_pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE))};
}

TEST(Train, AThousandStepsGrowNoMemory) {
  std::vector<MemoryUse> used;
  Observer watching;
  watching.step = [&](const StepReport& report) {
    if (report.step == 200 || report.step == 1000) used.push_back(memory_now());
  };
  JoinOptions join;
  join.size = 2;
  run_workers("threads", join, [&](Transport& wire) {
    train(wire, options_for(4, 1000), digits(), wire.rank() == 0 ? watching : Observer());
  });
  ASSERT_EQ(used.size(), 2u);
  // A leak of 256 bytes per step would exceed the bound; memory that the other worker uses at the
  // moment does not.
  EXPECT_LT(used[1].heap, used[0].heap + 200'000);
  EXPECT_LT(used[1].resident, used[0].resident + 2'000'000);
}

TEST(RunLength, InStepsSamplesOrEpochs) {
  EXPECT_EQ(total_steps({0, 7, 0}, 1000, 10, 4), 7u);
  EXPECT_EQ(total_steps({0, 0, 1000}, 1000, 10, 4), 25u);
  EXPECT_EQ(total_steps({2, 0, 0}, 1010, 10, 4), 52u);
  EXPECT_EQ(total_steps({0.5, 0, 0}, 1010, 10, 4), 13u);
}

}  // namespace
}  // namespace thinwire::trainer
