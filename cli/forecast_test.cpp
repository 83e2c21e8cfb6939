// Forecasts: what is simulated with less says the same as what is simulated whole.
#include "cli/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "strategy/model_run.h"
#include "thinwire/collective.h"
#include "thinwire/error.h"

namespace thinwire::cli {
namespace {

constexpr Seconds kComputing{0.02};
constexpr int kWorkers = 16;

class ScalingLaw : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  }
};

TEST_P(ScalingLaw, ASmallerPayloadTakesAsLongAndSendsAsManyTimesLess) {
  constexpr std::size_t kTimesLess = 4;
  const bool lockstep = make_strategy(GetParam())->pace() == Pace::lockstep;
  Rehearsal part{GetParam(), kWorkers, 1 << 14, Network::parse("1gbit,0.1ms"), kComputing};
  if (lockstep) part.numel = part_of(100'000'000, kWorkers);
  Rehearsal whole = part;
  part.scale = kTimesLess;
  whole.numel = kTimesLess * part.numel;
  part.counted = whole.counted = lockstep ? 1 : 33;
  const Rehearsed all = rehearse(whole), less = rehearse(part);
  constexpr double kTolerance = 0.05;
  EXPECT_NEAR(part.scale * less.bytes_sent / all.bytes_sent, 1, kTolerance);
  EXPECT_NEAR((less.step - kComputing) / (all.step - kComputing), 1, kTolerance)
      << (all.step - kComputing).count() << " s";
}

std::vector<std::string> all_strategies() {
  std::vector<std::string> out;
  for (const Entry<Strategy>& entry : strategies()) out.emplace_back(entry.name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, ScalingLaw, testing::ValuesIn(all_strategies()),
                         [](const auto& each) { return each.param; });

TEST(Rehearsal, IsTheSameEveryTime) {
  if (!has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  for (const char* strategy : {"gtopk:density=0.01", "gossip"}) {
    Rehearsal plan{strategy, 3, 5000, Network::parse("100mbit,1ms"), kComputing};
    plan.counted = 20;
    const Rehearsed once = rehearse(plan), again = rehearse(plan);
    EXPECT_EQ(once.step, again.step) << strategy;
    EXPECT_EQ(once.bytes_sent, again.bytes_sent) << strategy;
    EXPECT_GT(once.bytes_sent, 0) << strategy;
  }
}

TEST(Rehearsal, CountsWholeIntervalsOfWorkersThatTellNowAndThen) {
  if (!has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  Rehearsal plan{"localsgd:period=7", 4, 5000, Network{}, kComputing};
  plan.counted = 30;  // no multiple of the period
  const Rehearsed result = rehearse(plan);
  EXPECT_NEAR(result.bytes_sent, static_cast<double>(allreduce_bytes(5000, 0, 4)) / 7, 1e-6);
  EXPECT_EQ(result.exchanges, 4);
}

TEST(Rehearsal, GossipTellsAboutEveryTwelfthStep) {
  if (!has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  Rehearsal plan{"gossip", 4, 20'000, Network{}, kComputing};
  plan.warmup = 50;
  plan.counted = 300;
  const Rehearsed result = rehearse(plan);
  const auto found = std::ranges::find(result.figures, "messages_per_worker_step", &Figure::name);
  ASSERT_NE(found, result.figures.end());
  EXPECT_NEAR(found->value(), 0.08, 0.02);
}

TEST(Forecast, KeepsThePapersOrder) {
  if (!has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  const Workload workload{std::size_t{1} << 20, kComputing, Network::parse("1gbit,0.1ms")};
  Forecaster forecaster(workload);
  for (const int workers : {8, 16}) {
    // Without the strategies' own computing, which a busy machine may disturb.
    const auto wire = [&](const char* strategy) {
      const Forecast out = forecaster.forecast(strategy, workers);
      return out.step - out.codec;
    };
    const Seconds gtopk = wire("gtopk"), topk = wire("topk"), dense = wire("dense");
    EXPECT_LT(gtopk, topk) << workers;
    EXPECT_LT(topk, dense) << workers;
  }
}

TEST(Forecast, CountsRanksThatOnlyServeAsLost) {
  if (!has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  const Workload workload{10'000, kComputing, Network::parse("1gbit,0.1ms")};
  const Forecast out = Forecaster(workload).forecast("ps:servers=dedicated", 4);
  EXPECT_NEAR(out.efficiency, 0.75 * (kComputing / out.step), 1e-9);
  EXPECT_LT(out.efficiency, 0.75);
}

TEST(Forecast, OfAStrategyThatTwoRanksAreTooFewFor) {
  if (!has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  Forecaster forecaster({100'000, kComputing, Network::parse("1gbit,0.1ms")});
  EXPECT_GT(forecaster.forecast("ps:servers=4", 8).step, kComputing);
  EXPECT_THROW(forecaster.forecast("ps:servers=4", 3), ConfigError);
}

}  // namespace
}  // namespace thinwire::cli
