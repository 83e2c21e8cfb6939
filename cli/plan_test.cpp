// thinwire plan: what it refuses, what it prints, what it advises.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/duration.h"
#include "cli/plan_report.h"
#include "cli/test_call.h"
#include "testing/model_run.h"
#include "testing/split_words.h"
#include "thinwire/collective.h"
#include "thinwire/error.h"

namespace thinwire::cli {
namespace {

using test::operator+;

Outcome plan(const test::Words& more) { return call(test::Words{"plan"} + more); }

void expect_refused(const test::Words& arguments, std::string_view part) {
  const Outcome outcome = plan(arguments);
  EXPECT_EQ(outcome.code, launch::kBadUsage) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " is not in: " << outcome.err;
}

TEST(Plan, RefusesWhatItCannotPlanForBeforeAnythingStarts) {
  const std::string net = "1gbit,0.1ms";
  for (const char* workers : {"0", "5000", "-4", "four", "4,,8", "4;8", ""}) {
    expect_refused({"--numel", "1k", "--step-time", "1s", "--network", net, "--workers", workers},
                   "--workers");
  }
  for (const char* time : {"0", "-1s", "nan", "inf", "3 weeks", "1e9s", "ms"}) {
    expect_refused({"--numel", "1k", "--step-time", time, "--network", net}, "--step-time");
  }
  expect_refused({"--numel", "1k", "--step-time", "1s", "--network", "fast"}, "'fast'");
  expect_refused({"--numel", "1k", "--step-time", "1s"}, "--network: it is needed");
  expect_refused({"--numel", "1k", "--network", net}, "--step-time");
  expect_refused({"--numel", "none", "--step-time", "1s", "--network", net}, "--numel");
  expect_refused({"--network", net}, "--model M or --numel N");
  expect_refused({"--model", "lenet", "--numel", "1k", "--network", net}, "--model M or --numel N");
  expect_refused({"--model", "lenett", "--step-time", "1s", "--network", net}, "lenett");
  expect_refused({"--numel", "1k", "--step-time", "1s", "--network", net, "--batch", "0"},
                 "--batch");
  expect_refused({"--numel", "1k", "--step-time", "1s", "--network", net, "--batch", "8"},
                 "--batch");
  expect_refused({"--numel", "1k", "--step-time", "1s", "--network", net, "--strategies", "gtopc"},
                 "did you mean 'gtopk'");
  expect_refused(
      {"--numel", "1k", "--step-time", "1s", "--network", net, "--strategies", "topk; topk"},
      "'topk' is there twice");
  expect_refused({"--numel", "1k", "--step-time", "1s", "--network", net, "--strategies", " ; "},
                 "--strategies");
}

TEST(Plan, ReadsDurations) {
  EXPECT_DOUBLE_EQ(base::parse_duration("--t", "350ms").count(), 0.35);
  EXPECT_DOUBLE_EQ(base::parse_duration("--t", "0.35s").count(), 0.35);
  EXPECT_DOUBLE_EQ(base::parse_duration("--t", "0.35").count(), 0.35);
  EXPECT_DOUBLE_EQ(base::parse_duration("--t", "20us").count(), 20e-6);
}

TEST(Plan, PrintsALinePerStrategyAndSize) {
  if (!test::has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  const Outcome outcome =
      plan({"--numel", "50k", "--step-time", "20ms", "--network", "100mbit,0.1ms", "--workers",
            "1,4", "--strategies", "dense; localsgd:period=4", "--json"});
  ASSERT_EQ(outcome.code, launch::kOk) << outcome.err;
  std::vector<nlohmann::json> lines;
  std::istringstream stream(outcome.out);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 4u);
  for (const nlohmann::json& line : lines) {
    EXPECT_EQ(line["numel"], 50'000);
    EXPECT_EQ(line["scaled"], false);
    EXPECT_NEAR(line["efficiency"].get<double>(), 0.02 / line["step_seconds"].get<double>(), 1e-9);
  }
  EXPECT_EQ(lines[0]["efficiency"], 1.0);  // one worker waits for nobody
  const double dense_bytes = static_cast<double>(allreduce_bytes(50'000, 0, 4));
  EXPECT_EQ(lines[1]["strategy"], "dense");
  EXPECT_EQ(lines[1]["bytes_per_worker_step"], dense_bytes);
  EXPECT_GE(lines[1]["step_seconds"].get<double>(),
            0.02 + lines[1]["wire_bound_seconds"].get<double>());
  EXPECT_NEAR(lines[3]["bytes_per_worker_step"].get<double>(), dense_bytes / 4, 1);
}

TEST(Plan, ShowsTablesTheBestChoiceAndTheScale) {
  if (!test::has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  const Outcome outcome = plan({"--numel", "3M", "--step-time", "50ms", "--network", "1gbit,0.1ms",
                                "--workers", "16", "--strategies", "dense; gtopk"});
  ASSERT_EQ(outcome.code, launch::kOk) << outcome.err;
  for (const char* part : {"efficiency, %", "step, ms", "sent per worker and step",
                           "16 workers: gtopk", "Nowhere is dense as good", "scaled payloads"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is not in: " << outcome.out;
  }
  EXPECT_NE(outcome.err.find("gtopk, 16 workers"), std::string::npos) << outcome.err;
}

TEST(Plan, LeavesOutWhatIsTooLargeToSimulateAndSaysWhy) {
  if (!test::has_engine("sim")) GTEST_SKIP() << "sim is not in this build";
  const Outcome outcome = plan({"--numel", "1k", "--step-time", "50ms", "--network", "1gbit",
                                "--workers", "512", "--strategies", "gossip"});
  EXPECT_EQ(outcome.code, launch::kBadUsage);
  EXPECT_NE(outcome.err.find("left out: gossip, 512 workers"), std::string::npos) << outcome.err;
}

plan::Prediction made_up(std::string strategy, int workers, double seconds,
                         SyncMode sync_mode = SyncMode::synchronous) {
  plan::Prediction out;
  out.strategy = std::move(strategy);
  out.workers = workers;
  out.step = Seconds(seconds);
  out.sync_mode = sync_mode;
  return out;
}

std::string advice(const std::vector<int>& workers,
                   const std::vector<plan::Prediction>& predictions) {
  PlanSetting setting;
  setting.workers = workers;
  std::string out;
  for (const std::string& line : plan_advice(setting, predictions)) out += line + "\n";
  return out;
}

TEST(PlanAdvice, PrefersDenseWhereItIsAsGood) {
  const std::string text = advice({8, 4}, {made_up("dense", 4, 1.04), made_up("dense", 8, 2),
                                           made_up("gtopk", 4, 1), made_up("gtopk", 8, 1)});
  EXPECT_NE(text.find("8 workers: gtopk"), std::string::npos) << text;
  EXPECT_NE(text.find("Up to 4 workers dense is as good: use it."), std::string::npos) << text;
  EXPECT_NE(text.find("as good: dense)"), std::string::npos) << text;
  EXPECT_NE(advice({4}, {made_up("dense", 4, 1), made_up("gtopk", 4, 2)})
                .find("With 4 workers dense is as good: use it."),
            std::string::npos);
  EXPECT_NE(advice({4, 8}, {made_up("dense", 4, 2), made_up("dense", 8, 1), made_up("topk", 4, 1)})
                .find("With 8 workers dense is as good"),
            std::string::npos);
}

TEST(PlanAdvice, NamesStrategiesThatLetModelsDifferApart) {
  const std::string text =
      advice({4}, {made_up("gtopk", 4, 1), made_up("gossip", 4, 0.5, SyncMode::asynchronous)});
  EXPECT_NE(text.find("4 workers: gtopk"), std::string::npos) << text;
  EXPECT_NE(text.find("if models may differ for a while: gossip"), std::string::npos) << text;
  EXPECT_EQ(text.find("dense"), std::string::npos) << text;
}

TEST(PlanAdvice, SaysWhatDenseIsAsGoodAs) {
  const std::string text =
      advice({4}, {made_up("dense", 4, 1), made_up("gossip", 4, 0.5, SyncMode::asynchronous)});
  EXPECT_NE(text.find("With 4 workers dense is as good as anything that keeps all models equal."),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace thinwire::cli
