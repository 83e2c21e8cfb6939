// thinwire plan: what it refuses and what it prints.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/duration.h"
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
                 "did you mean gtopk");
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
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
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

TEST(Plan, ChoosesDensitiesAndRanksForTheLengthOfTheRun) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  const auto detail = [](const char* strategy, const char* steps) {
    const Outcome outcome =
        plan({"--numel", "600k", "--step-time", "20ms", "--network", "1gbit,0.1ms", "--workers",
              "4", "--strategies", strategy, "--steps", steps, "--json"});
    EXPECT_EQ(outcome.code, launch::kOk) << outcome.err;
    const nlohmann::json line = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(line["steps"], std::stoi(steps));
    return line["detail"];
  };
  EXPECT_NEAR(detail("topk", "10000")["density"].get<double>(), 0.003, 1e-6);
  EXPECT_NEAR(detail("topk", "10000")["coverage"].get<double>(), 30, 0.5);
  EXPECT_NEAR(detail("topk", "1000")["density"].get<double>(), 0.03, 1e-6);
  EXPECT_NEAR(detail("gtopk", "10000")["density"].get<double>(), 4 * 0.003, 1e-6);
  EXPECT_EQ(detail("powersgd", "10000")["rank"], 4);
  EXPECT_EQ(detail("powersgd", "100")["rank"], 16);
}

TEST(Plan, ShowsTablesTheBestChoiceAndTheScale) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  const Outcome outcome = plan({"--numel", "3M", "--step-time", "50ms", "--network", "1gbit,0.1ms",
                                "--workers", "16", "--strategies", "dense; gtopk"});
  ASSERT_EQ(outcome.code, launch::kOk) << outcome.err;
  for (const char* part : {"efficiency, %", "step, ms", "sent per worker and step",
                           "a run of 10000 steps", "density, or the rank of matrices",
                           "16 workers: gtopk", "dense is not as good", "scaled payloads"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is not in: " << outcome.out;
  }
  EXPECT_NE(outcome.err.find("gtopk, 16 workers"), std::string::npos) << outcome.err;
}

TEST(Plan, LeavesOutWhatIsTooLargeToSimulateAndSaysWhy) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  const Outcome outcome = plan({"--numel", "1k", "--step-time", "50ms", "--network", "1gbit",
                                "--workers", "512", "--strategies", "gossip"});
  EXPECT_EQ(outcome.code, launch::kBadUsage);
  EXPECT_NE(outcome.err.find("left out: gossip, 512 workers"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace thinwire::cli
