#include <gtest/gtest.h>

#include <fmt/format.h>

#include <atomic>
#include <bit>

#include "message/sparse_message.h"
#include "testing/expect.h"
#include "testing/ranks.h"
#include "testing/strategy_run.h"
#include "tests/survivor.h"
#include "thinwire/collective.h"
#include "transport/backends.h"

namespace thinwire::strategy {
namespace {

// The largest k of a dense vector; ties go to the lower index.
std::vector<float> only_largest(std::vector<float> values, std::size_t k) {
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  for (std::size_t j = k; j < order.size(); ++j) values[order[j]] = 0;
  return values;
}

TEST(GTopK, OfTwoWorkersIsTheExactTopKOfTheSumOfTheirPicks) {
  test::StrategyRun run;
  run.spec = "gtopk:density=0.05,values=fp32";
  run.steps = 1;
  const auto records = test::run_strategy(run);
  std::vector<float> sum(run.numel);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<float> gradient(run.numel);
    for (std::size_t i = 0; i < run.numel; ++i) gradient[i] = test::grid_gradient(rank, 0, i);
    const auto picked = only_largest(gradient, 50);
    for (std::size_t i = 0; i < run.numel; ++i) sum[i] += picked[i];
  }
  auto expected = only_largest(sum, 50);
  for (float& value : expected) value /= 2;
  EXPECT_EQ(records[0].grads[0], expected);
}

TEST(GTopK, ChangesKCoordinatesHoweverManyWorkers) {
  for (const int workers : {2, 5, 16, 33}) {
    test::StrategyRun run;
    run.spec = "gtopk:density=0.03";
    run.workers = workers;
    const auto records = test::run_strategy(run);
    for (const auto& grads : records[0].grads) {
      const auto zeros = std::count(grads.begin(), grads.end(), 0.0f);
      EXPECT_LE(run.numel - static_cast<std::size_t>(zeros), 30u) << workers;
    }
  }
}

// Two ranks pick the same index; a merge drops one of the values, and the other is applied.
float contested(int rank, std::uint64_t, std::size_t element) {
  if (element == 0) return rank == 0 ? 1.0f : rank == 2 ? 100.0f : 0.0f;
  if (element == 1) return rank == 1 ? 50.0f : 0.0f;
  return 0;
}

TEST(GTopK, ThePapersRuleLosesWhatWasDroppedOnTheWayAndSaysHowMuch) {
  test::StrategyRun run;
  run.workers = 4;
  run.numel = 10;
  run.steps = 1;
  run.gradient = contested;
  run.spec = "gtopk:density=0.1,values=fp32,residual=paper";
  const auto paper = test::run_strategy(run);
  EXPECT_EQ(paper[0].grads[0][0], 25);            // 100 / 4: rank 2's
  EXPECT_EQ(test::residual_of(paper[0])[0], 0);   // rank 0's 1 is lost
  EXPECT_EQ(test::residual_of(paper[1])[1], 50);  // index 1 is not in the result
  EXPECT_DOUBLE_EQ(metric(paper, "mass_lost"), 1.0 / 151);

  run.spec = "gtopk:density=0.1,values=fp32,residual=return";
  const auto returned = test::run_strategy(run);
  EXPECT_EQ(returned[0].grads, paper[0].grads);
  EXPECT_EQ(test::residual_of(returned[0])[0], 1);
  EXPECT_EQ(test::residual_of(returned[1])[1], 50);
  EXPECT_EQ(metric(returned, "mass_lost"), 0);
}

class GTopKGroups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, GTopKGroups, testing::ValuesIn(test::kGroupSizes));

// A rank sends k log2 P coordinates. If P is no power of two, some ranks form pairs: one rank of a
// pair sends one message more, the other only one, and the bits that say which picks were applied.
TEST_P(GTopKGroups, SendTheBytesOfTheFormula) {
  const int size = GetParam();
  if (size == 1) return;
  constexpr std::size_t kNumel = 4096, kPicks = 81;
  test::StrategyRun run;
  run.workers = size;
  run.numel = kNumel;
  run.steps = 1;
  // All workers pick the same indices, so that all messages have the same length.
  run.gradient = [](int rank, std::uint64_t, std::size_t element) {
    return element % 50 == 0 ? 1 + static_cast<float>(rank) : 0.0f;
  };
  run.spec = "gtopk:density=0.02,values=fp32,residual=paper";
  const auto paper = test::run_strategy(run);
  run.spec = "gtopk:density=0.02,values=fp32";
  const auto returning = test::run_strategy(run);

  Sparse picks;
  for (std::uint32_t i = 0; i < kPicks; ++i) picks.push_back(50 * i, 1.0f);
  Payload message;
  message::encode_sparse(picks, message::ValueCoding::fp32, {kNumel, 0}, message);
  const auto most = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  const auto rounds = static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(most)));
  for (int rank = 0; rank < size; ++rank) {
    const bool paired = rank < 2 * (size - most);
    const unsigned sends = !paired ? rounds : rank % 2 != 0 ? 1 : rounds + 1;
    const std::uint64_t vote = allreduce_bytes(1, rank, size, Route::automatic, 4);
    EXPECT_EQ(paper[std::size_t(rank)].bytes_sent, sends * message.size() + vote);
    const std::size_t bits = paired && rank % 2 == 0 ? (kPicks + 7) / 8 : 0;
    EXPECT_EQ(returning[std::size_t(rank)].bytes_sent, sends * message.size() + vote + bits);
  }
}

// Rank 0 merges for rank 1, which receives the result from it and does not merge.
TEST(GTopK, ADamagedMessageIsReportedWithTheRankThatSentIt) {
  for (const int workers : {2, 3, 4, 7}) {
    std::atomic<int> refused{0};
    for (int at = 0; at < 12; ++at) {
      transport::BackendOptions options;
      options.size = workers;
      options.fault = fmt::format("corrupt:rank=0,at={}", at);
      const auto worker = [&](Transport& wire) {
        SurvivorRank rank(wire, "gtopk:density=0.05");
        try {
          rank.step();
        } catch (const WireError& error) {
          EXPECT_TRUE(test::has(error.what(), fmt::format("rank {}: rank 0 (", wire.rank())));
          ++refused;
          throw;
        }
      };
      try {
        run_workers("threads", options, worker);
      } catch (const Error&) {
        // A flipped bit of a vote may have no effect.
      }
    }
    EXPECT_GT(refused, 0) << workers;
  }
}

}  // namespace
}  // namespace thinwire::strategy
