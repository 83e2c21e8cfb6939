// Tests that P workers with batch B train as one worker with batch P x B does.
#include <gtest/gtest.h>

#include <memory>

#include "thinwire/collective.h"
#include "trainer/computing.h"
#include "trainer/data/loader.h"
#include "trainer/evaluate.h"
#include "trainer/flat_model.h"
#include "trainer/models/network.h"
#include "trainer/test_run.h"

namespace thinwire::trainer {
namespace {

// Returns the mean as the ring all-reduce computes it: for share s in the order s+1, s+2, ..., s.
std::vector<float> mean_in_ring_order(const std::vector<std::vector<float>>& parts) {
  const int size = static_cast<int>(parts.size());
  std::vector<float> mean(parts[0].size());
  for (int rank = 0; rank < size; ++rank) {
    const Share share = share_of(mean.size(), rank, size);
    for (std::size_t i = share.begin; i < share.end; ++i) {
      float sum = parts[static_cast<std::size_t>((rank + 1) % size)][i];
      for (int k = 2; k <= size; ++k) sum += parts[static_cast<std::size_t>((rank + k) % size)][i];
      mean[i] = sum / static_cast<float>(size);
    }
  }
  return mean;
}

// Trains one worker that computes the gradients of all parts of the global batch itself. Returns
// the losses of part 0.
std::vector<double> accumulating_sgd(const TrainOptions& options, int parts) {
  prepare_computing();  // as in train()
  const ExampleShape shape = digits().train->shape();
  const auto network = make_network(options.model, shape, options.seed);
  FlatModel model(*network);
  std::vector<float> velocity(model.layout().numel);
  std::vector<std::unique_ptr<Loader>> loaders;
  for (int part = 0; part < parts; ++part) {
    const LoaderOptions reading{part, parts, options.batch, options.seed, 0};
    loaders.push_back(std::make_unique<Loader>(*digits().train, reading));
  }
  std::vector<double> losses;
  for (std::uint64_t step = 0; step < options.steps; ++step) {
    std::vector<std::vector<float>> gradients;
    for (const auto& loader : loaders) {
      model.zero_grads();
      const torch::Tensor loss = loss_of(*network, to_tensors(loader->next(), shape));
      loss.backward();
      if (gradients.empty()) losses.push_back(loss.item<double>());
      gradients.emplace_back(model.grads().begin(), model.grads().end());
    }
    const std::vector<float> mean = mean_in_ring_order(gradients);
    const auto rate = static_cast<float>(options.learning_rate);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      float& param = model.params()[i];
      velocity[i] =
          options.sgd.momentum * velocity[i] + (mean[i] + options.sgd.weight_decay * param);
      param -= rate * velocity[i];
    }
  }
  return losses;
}

TEST(Replicas, EqualOneWorkerThatAccumulatesGradientsBitForBit) {
  for (const int workers : {1, 2, 4}) {
    TrainOptions options = options_for(64 / static_cast<std::size_t>(workers), 25);
    options.sgd.weight_decay = 1e-4f;
    EXPECT_EQ(run(options, workers).losses, accumulating_sgd(options, workers)) << workers;
  }
}

TEST(Replicas, FollowTheCurveOfOneWorkerWithTheirGlobalBatch) {
  TrainOptions options = options_for(64, 40);
  options.eval_every = 10;
  const Outcome one = run(options, 1);
  ASSERT_EQ(one.of_workers.size(), 4u);
  for (const int workers : {2, 4}) {
    options.batch = 64 / static_cast<std::size_t>(workers);
    const Outcome many = run(options, workers);
    EXPECT_TRUE(many.result.replicas_identical);
    EXPECT_NEAR(many.result.test.loss, one.result.test.loss, 1e-3 * one.result.test.loss);
    ASSERT_EQ(many.of_workers.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(many.of_workers[i].first_step, 10 * i + 1);
      EXPECT_EQ(many.of_workers[i].last_step, 10 * i + 10);
      EXPECT_NEAR(many.of_workers[i].loss, one.of_workers[i].loss, 1e-4) << workers;
    }
  }
}

// With one worker, the loss of a milestone is the mean of the losses of its steps.
TEST(Replicas, ReportTheLossOfAllExamplesSinceTheLastMilestone) {
  TrainOptions options = options_for(16, 7);
  options.eval_every = 3;
  const Outcome one = run(options, 1);
  ASSERT_EQ(one.of_workers.size(), 3u);
  EXPECT_EQ(one.of_workers[2].first_step, 7u);
  EXPECT_DOUBLE_EQ(one.of_workers[0].loss, (one.losses[0] + one.losses[1] + one.losses[2]) / 3);
  EXPECT_DOUBLE_EQ(one.of_workers[2].loss, one.losses[6]);
}

}  // namespace
}  // namespace thinwire::trainer
