// Forecasts: what is simulated with less says the same as what is simulated whole.
#include "cli/forecast.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "strategy/model_run.h"
#include "thinwire/collective.h"
#include "thinwire/error.h"

namespace thinwire::cli {
namespace {

constexpr Seconds kComputing{0.02};
constexpr int kWorkers = 16;

Rehearsed rehearse_payload(const std::string& strategy, const ScaledPayload& payload) {
  const bool lockstep = make_strategy(strategy)->pace() == Pace::lockstep;
  Rehearsal plan{strategy, kWorkers, payload.numel, payload.network, kComputing};
  plan.counted = lockstep ? 1 : 33;
  return rehearse(plan);
}

class ScalingLaw : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  }
};

TEST_P(ScalingLaw, ASmallerPayloadTakesAsLongAndSendsAsManyTimesLess) {
  const Workload workload{std::size_t{1} << 20, kComputing, Network::parse("1gbit,0.1ms")};
  const std::size_t quarter = workload.numel / 4;
  const bool lockstep = make_strategy(GetParam())->pace() == Pace::lockstep;
  const ScaledPayload payload = scaled(
      workload, lockstep ? proportional_payload(GetParam(), workload.numel, kWorkers, quarter)
                         : payload_for(workload.numel, kWorkers, Pace::free, quarter));
  const Rehearsed whole = rehearse_payload(GetParam(), scaled(workload, workload.numel));
  const Rehearsed less = rehearse_payload(GetParam(), payload);
  constexpr double kTolerance = 0.05;
  EXPECT_NEAR(less.bytes_sent * payload.scale / whole.bytes_sent, 1, kTolerance);
  EXPECT_NEAR((less.step - kComputing) / (whole.step - kComputing), 1, kTolerance)
      << (whole.step - kComputing).count() << " s";
}

TEST(Payload, GrowsUntilAnExchangeTakesTheWayOfTheWholeModel) {
  if (!has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  constexpr std::size_t kWhole = std::size_t{1} << 20;
  EXPECT_EQ(proportional_payload("dense", kWhole, kWorkers, kWhole / 4), kWhole / 4);
  // A hundredth of a quarter is so little that it goes by doubling, a hundredth of it all is not.
  EXPECT_EQ(proportional_payload("grandk", kWhole, kWorkers, kWhole / 4), kWhole);
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

RC_GTEST_PROP(Payload, TakesTheRoutesOfTheWholeModel, ()) {
  const auto numel = *rc::gen::inRange<std::size_t>(1, 100'000'000);
  const int workers = *rc::gen::inRange(2, kMostPlannedWorkers + 1);
  const auto affordable = *rc::gen::inRange<std::size_t>(1, 1'000'000);
  const auto rings = [&](std::size_t n) {
    return allreduce_bytes(n, 0, workers) == allreduce_bytes(n, 0, workers, Route::ring);
  };
  try {
    const std::size_t payload = payload_for(numel, workers, Pace::lockstep, affordable);
    RC_ASSERT(payload >= 1u && payload <= numel);
    RC_ASSERT(rings(payload) == rings(numel));
  } catch (const ConfigError&) {
    // More than this machine's memory.
  }
}

TEST(Forecast, OfAStrategyThatTwoRanksAreTooFewFor) {
  if (!has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  Forecaster forecaster({100'000, kComputing, Network::parse("1gbit,0.1ms")});
  EXPECT_GT(forecaster.forecast("ps:servers=4", 8).step, kComputing);
  EXPECT_THROW(forecaster.forecast("ps:servers=4", 3), ConfigError);
}

}  // namespace
}  // namespace thinwire::cli
