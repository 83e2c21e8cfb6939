// Predictions: a simulation of a part of the model gives the same result as one of the whole.
#include "plan/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "testing/model_run.h"
#include "thinwire/collective.h"
#include "thinwire/error.h"

namespace thinwire::plan {
namespace {

constexpr Seconds kComputing{0.02};
constexpr int kWorkers = 16;
constexpr std::size_t kPart = std::size_t{1} << 20;  // that plan takes of a large model

class ScalingLaw : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  }
};

TEST_P(ScalingLaw, ASmallerPayloadTakesAsLongAndSendsAsManyTimesLess) {
  constexpr std::size_t kTimesLess = 4;
  const bool synchronous = sync_mode_of(*make_strategy(GetParam())) == SyncMode::synchronous;
  const std::size_t numel = synchronous ? kPart : 1 << 14;
  SimulationSpec part{GetParam(), kWorkers, synthetic_model(numel), Network::parse("1gbit,0.1ms"),
                      kComputing};
  SimulationSpec whole = part;
  part.scale = kTimesLess;
  whole.layout = synthetic_model(kTimesLess * numel);
  part.counted = whole.counted = synchronous ? 1 : 33;
  // Quantized messages begin when enough messages have come.
  if (GetParam().find("bits=4") != std::string::npos) part.warmup = whole.warmup = 48;
  const SimulationResult all = simulate_strategy(whole), less = simulate_strategy(part);
  constexpr double kTolerance = 0.05;
  EXPECT_NEAR(part.scale * less.bytes_sent / all.bytes_sent, 1, kTolerance);
  EXPECT_NEAR((less.step - kComputing) / (all.step - kComputing), 1, kTolerance)
      << (all.step - kComputing).count() << " s";
}

std::vector<std::string> planned_strategies() {
  std::vector<std::string> out = {"topk:density=0.0005", "gtopk:density=0.0005", "ps:servers=4",
                                  "gossip:trigger=period,period=2,bits=4"};
  for (const StrategyInfo& entry : strategies()) out.emplace_back(entry.name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, ScalingLaw, testing::ValuesIn(planned_strategies()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace_if(
                               name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

TEST(SimulationSpec, IsTheSameEveryTime) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  for (const char* strategy : {"gtopk:density=0.01", "gossip"}) {
    SimulationSpec plan{strategy, 3, synthetic_model(5000), Network::parse("100mbit,1ms"),
                        kComputing};
    plan.counted = 20;
    const SimulationResult once = simulate_strategy(plan), again = simulate_strategy(plan);
    EXPECT_EQ(once.step, again.step) << strategy;
    EXPECT_EQ(once.bytes_sent, again.bytes_sent) << strategy;
    EXPECT_GT(once.bytes_sent, 0) << strategy;
  }
}

TEST(SimulationSpec, CountsWholeIntervalsOfWorkersThatTellNowAndThen) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  SimulationSpec plan{"localsgd:period=7", 4, synthetic_model(5000), Network{}, kComputing};
  plan.counted = 30;  // no multiple of the period
  const SimulationResult result = simulate_strategy(plan);
  EXPECT_NEAR(result.bytes_sent, static_cast<double>(allreduce_bytes(5000, 0, 4)) / 7, 1e-6);
  EXPECT_EQ(result.exchanges, 4);
}

TEST(SimulationSpec, GossipTellsAboutEveryTwelfthStep) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  SimulationSpec plan{"gossip:kappa=5", 4, synthetic_model(20'000), Network{}, kComputing};
  plan.warmup = 50;
  plan.counted = 300;
  const SimulationResult result = simulate_strategy(plan);
  const auto found = std::ranges::find(result.metrics, "messages_per_worker_step", &Metric::name);
  ASSERT_NE(found, result.metrics.end());
  EXPECT_NEAR(found->value(), 0.08, 0.02);
}

Workload workload(std::size_t numel) {
  return {synthetic_model(numel), kComputing, Network::parse("1gbit,0.1ms")};
}

double metric(const Prediction& prediction, std::string_view name) {
  const Metric* const found = find_metric(prediction.metrics, name);
  return found == nullptr ? -1 : found->value();
}

TEST(Prediction, KeepsThePapersOrder) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  Planner planner(workload(25'557'032));
  for (const int workers : {4, 8, 16, 32}) {
    // Without the strategies' own computing, which a busy machine may disturb.
    const auto wire = [&](const char* strategy) {
      const Prediction out = planner.predict(strategy, workers);
      return out.step - out.codec;
    };
    const Seconds gtopk = wire("gtopk:density=0.001"), topk = wire("topk:density=0.001");
    EXPECT_LT(gtopk, topk) << workers;
    EXPECT_LT(topk, wire("dense")) << workers;
  }
}

TEST(Prediction, CountsRanksThatOnlyServeAsLost) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  const Prediction out = Planner(workload(10'000)).predict("ps:servers=dedicated", 4);
  EXPECT_NEAR(out.efficiency, 0.75 * (kComputing / out.step), 1e-9);
  EXPECT_LT(out.efficiency, 0.75);
}

TEST(Prediction, OfAStrategyThatTwoRanksAreTooFewFor) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  Planner planner(workload(100'000));
  EXPECT_GT(planner.predict("ps:servers=4", 8).step, kComputing);
  EXPECT_THROW(planner.predict("ps:servers=4", 3), ConfigError);
}

// The messages by which asynchronous workers report their progress are not counted as models.
TEST(Prediction, CountsMessagesThatAreRare) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  constexpr std::size_t kNumel = 20'000;
  constexpr double kPeriod = 200;
  const Prediction out =
      Planner(workload(kNumel)).predict("gossip:trigger=period,period=200,bits=32", 4);
  EXPECT_NEAR(metric(out, "messages_per_worker_step"), 1 / kPeriod, 0.2 / kPeriod);
  const double model_bytes = sizeof(float) * kNumel / kPeriod;
  EXPECT_NEAR(out.bytes_per_worker_step, model_bytes, 0.2 * model_bytes);
}

TEST(Prediction, WaitsForQuantizedMessages) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  constexpr std::size_t kNumel = 20'000;
  Planner planner(workload(kNumel));
  const Prediction whole = planner.predict("gossip:trigger=period,period=8,bits=32", 4);
  const Prediction few = planner.predict("gossip:trigger=period,period=8,bits=4", 4);
  EXPECT_TRUE(few.notes.empty());
  EXPECT_LT(few.bytes_per_worker_step, 0.2 * whole.bytes_per_worker_step);
}

TEST(Prediction, SaysSoIfMessagesAreNeverQuantized) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  const Prediction out =
      Planner(workload(1000)).predict("gossip:trigger=period,period=500,bits=8", 2);
  ASSERT_EQ(out.notes.size(), 1u);
  EXPECT_NE(out.notes[0].find("messages are quantized"), std::string::npos) << out.notes[0];
}

TEST(Prediction, LeavesOutWhatIsTooRareToSee) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  Planner planner(workload(1000));
  EXPECT_THROW(planner.predict("localsgd:period=10000", 2), ConfigError);
  EXPECT_THROW(planner.predict("gossip:trigger=period,period=10000", 2), ConfigError);
}

TEST(Prediction, DealsOutBlocksAsEvenlyAsTheWholeModel) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  constexpr int kMany = 64;
  Planner planner(workload(25'557'032));
  const Prediction out = planner.predict("grandk:density=0.01", kMany);
  EXPECT_LT(out.wire_bound, 1.1 * Network::parse("1gbit").transfer_time(
                                      static_cast<std::size_t>(out.bytes_per_worker_step)));
  EXPECT_NEAR(metric(out, "blocks_per_worker"), 0.01 * 25'557'032 / 256 / kMany, 0.2);
}

// A model in which small tensors are half of what grandk sends.
TEST(Prediction, KeepsTheShareOfVectorsAndTheShapesOfMatrices) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  Workload model = workload(0);
  const auto append = [&](std::vector<std::size_t> shape) {
    model.layout.tensors.push_back({"tensor", model.layout.numel, std::move(shape)});
    model.layout.numel += model.layout.tensors.back().numel();
  };
  for (int i = 0; i < 12; ++i) {
    append({256, 2048});
    append({1024});
  }
  Workload all = model;
  all.full = true;
  Planner part(model), whole(all);
  for (const char* strategy : {"qsgd", "grandk", "powersgd", "gtopk:small=dense"}) {
    const Prediction of_part = part.predict(strategy, 4), of_whole = whole.predict(strategy, 4);
    EXPECT_GT(of_part.scale, 1) << strategy;
    EXPECT_EQ(of_whole.scale, 1) << strategy;
    EXPECT_NEAR(of_part.bytes_per_worker_step / of_whole.bytes_per_worker_step, 1, 0.03)
        << strategy;
  }
  EXPECT_NEAR(metric(part.predict("powersgd", 4), "compression"),
              metric(whole.predict("powersgd", 4), "compression"), 1);
}

TEST(Prediction, CountsWhatServersComputeAndSayOfTheWholeModel) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  const Prediction out = Planner(workload(4'000'000)).predict("ps", 8);
  ASSERT_GT(out.scale, 1);
  EXPECT_GT(metric(out, "server_seconds"), 0);
  EXPECT_GT(out.codec.count(), 0.5 * metric(out, "server_seconds"));
  const double bytes = 8 * out.bytes_per_worker_step;
  EXPECT_NEAR((metric(out, "bytes_up") + metric(out, "bytes_down")) / bytes, 1, 0.1);
}

TEST(Prediction, PassesOnWhatStrategiesWarnOf) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  const Prediction out = Planner(workload(4'000'000)).predict("ps:density=0.01", 32);
  ASSERT_EQ(out.notes.size(), 1u);
  EXPECT_NE(out.notes[0].find("every step is dense"), std::string::npos) << out.notes[0];
  EXPECT_THROW(Planner(workload(5'000'000'000)).predict("gtopk", 4), ConfigError);
}

}  // namespace
}  // namespace thinwire::plan
