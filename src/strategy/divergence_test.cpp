// Strategies with residuals when updates grow without bound: all ranks take the same measures in
// the same steps, and go on from a checkpoint in the middle of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "testing/strategy_run.h"

namespace thinwire::strategy {
namespace {

// Gradients of one rank grow from step 80 on.
float growing(int rank, std::uint64_t step, std::size_t element) {
  const double factor = rank == 1 && step > 80 ? std::pow(1.4, static_cast<double>(step - 80)) : 1;
  return static_cast<float>(factor) * test::grid_gradient(rank, step, element);
}

test::StrategyRun run_of(const std::string& spec, std::uint64_t steps) {
  test::StrategyRun run;
  run.spec = spec;
  run.workers = 3;
  run.numel = 2000;
  run.shape = {40, 50};
  run.steps = steps;
  run.options.sgd = {.momentum = 0.9f, .weight_decay = 0, .nesterov = false};
  return run;
}

std::size_t changes(const std::vector<float>& update) {
  return update.size() - static_cast<std::size_t>(std::ranges::count(update, 0.0f));
}

class Divergence : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Divergence,
                         testing::Values("topk:density=0.02,warmup=none",
                                         "gtopk:density=0.02,warmup=none",
                                         "ps:density=0.02,warmup=none",
                                         "grandk:density=0.02,warmup=none"));

TEST_P(Divergence, IsAnsweredByAllRanksAlike) {
  test::StrategyRun run = run_of(GetParam(), 110);
  run.gradient = growing;
  const auto records = test::run_strategy(run);
  for (const test::RankRecord& record : records) ASSERT_EQ(record.grads, records[0].grads);
  std::vector<std::size_t> counts;
  for (const auto& update : records[0].grads) counts.push_back(changes(update));
  const auto most = [&](std::size_t from, std::size_t to) {
    return *std::max_element(counts.begin() + static_cast<std::ptrdiff_t>(from),
                             counts.begin() + static_cast<std::ptrdiff_t>(to));
  };
  EXPECT_LE(most(0, 80), 3u * 40);
  EXPECT_GT(most(80, 110), run.numel / 2);  // a dense step
}

class DivergenceResumed : public Divergence {};
INSTANTIATE_TEST_SUITE_P(All, DivergenceResumed,
                         testing::Values("topk:density=0.02,warmup=none",
                                         "gtopk:density=0.02,warmup=none",
                                         "ps:density=0.02,warmup=none",
                                         "grandk:density=0.02,warmup=none",
                                         "powersgd:rank=1,start=0"));

TEST_P(DivergenceResumed, IsAnsweredAlikeAfterACheckpoint) {
  test::StrategyRun run = run_of(GetParam(), 110);
  run.gradient = growing;
  const auto whole = test::run_strategy(run);
  run.steps = 92;
  std::vector<Payload> states;
  for (const test::RankRecord& record : test::run_strategy(run)) states.push_back(record.state);
  run.steps = 110;
  const auto second = test::run_strategy(run, states.data(), 92);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(second[rank].state, whole[rank].state);
    EXPECT_EQ(second[rank].grads.back(), whole[rank].grads.back());
  }
}

}  // namespace
}  // namespace thinwire::strategy
