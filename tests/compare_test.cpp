// thinwire compare, end to end: runs, interrupted and resumed, its files, what it refuses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "testing/expect.h"
#include "tests/trainer_command.h"

namespace thinwire {
namespace {

using test::operator+;

namespace fs = std::filesystem;

class CompareCommand : public TrainerCommand {
 protected:
  test::Words compare(const test::Words& more,
                      const std::string& strategies = "topk:density=0.1; localsgd") {
    return test::Words{THINWIRE,    "compare", "--strategies", strategies, "--model",
                       "mlp",       "--batch", "16",           "--out",    directory_.string(),
                       "--workers", "2"} +
           more;
  }
  static std::vector<nlohmann::json> json_lines(const std::string& text) {
    std::vector<nlohmann::json> out;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }
};

TEST_F(CompareCommand, GoesOnWhereItWasInterrupted) {
  const test::Words command =
      compare({"--transport", "threads", "--steps", "300", "--save-every", "20", "--json"});
  {
    test::ChildProcess run(command);
    const fs::path checkpoint =
        directory_ / "topk,density=0.1/checkpoints/step-000000000020-model.ck";
    const auto start = std::chrono::steady_clock::now();
    while (!fs::exists(checkpoint) && !run.wait(Seconds(0.001))) {
      ASSERT_LT(std::chrono::steady_clock::now() - start, kPatience) << run.describe();
    }
    run.signal(SIGINT);
    ASSERT_TRUE(run.wait(kPatience)) << run.describe();
    EXPECT_EQ(run.exit_code(), 130) << run.describe();
    EXPECT_TRUE(test::has(run.err(), "the same command goes on"));
    EXPECT_TRUE(run.wait_for_descendants(kPatience));
    EXPECT_EQ(json_lines(run.out()).size(), 1u);
  }
  const auto dense_ended = fs::last_write_time(directory_ / "dense/run.jsonl");
  const std::string dense_summary = contents(directory_ / "dense/summary.json");
  EXPECT_FALSE(fs::exists(directory_ / "topk,density=0.1/summary.json"));
  EXPECT_TRUE(test::has(contents(directory_ / "report.html"), "1 of 3 strategies"));

  test::ChildProcess rest(command);
  ASSERT_TRUE(rest.wait(kPatience)) << rest.describe();
  EXPECT_EQ(rest.exit_code(), 0) << rest.describe();
  EXPECT_EQ(rest.err().find("[1/3]"), std::string::npos) << "dense was repeated";
  EXPECT_TRUE(test::has(rest.err(), "resuming after step")) << "topk had a checkpoint";
  EXPECT_EQ(fs::last_write_time(directory_ / "dense/run.jsonl"), dense_ended);
  const auto lines = json_lines(rest.out());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], nlohmann::json::parse(dense_summary));
  EXPECT_EQ(lines[1]["strategy"], "topk:density=0.1");
  EXPECT_EQ(lines[2]["strategy"], "localsgd");
  for (const auto& line : lines) {
    EXPECT_EQ(line["command"], "train");
    EXPECT_EQ(line["steps"], 300);
  }
  EXPECT_TRUE(test::has(contents(directory_ / "report.html"), "3 of 3 strategies"));
  EXPECT_TRUE(test::has(contents(directory_ / "compare.csv"), "\ntopk:density=0.1,"));
}

TEST_F(CompareCommand, PrintsATableWithARecommendation) {
  test::ChildProcess run(compare({"--steps", "30", "--transport", "threads"}, "localsgd:period=4"));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 0) << run.describe();
  for (const std::string_view part :
       {"mlp on digits, 2 workers over threads", "strategy", "sooner", "sent/step", "dense",
        "localsgd:period=4", "One seed is one sample", "report.html"}) {
    EXPECT_TRUE(test::has(run.out(), part));
  }
  int tests = 0;
  std::ifstream log(directory_ / "dense/run.jsonl");
  for (std::string line; std::getline(log, line);) {
    tests += line.find("test_accuracy") != std::string::npos;
  }
  EXPECT_EQ(tests, 15);
}

TEST_F(CompareCommand, ARunThatFailsDoesNotEndTheOthers) {
  // At its 200th message, which a strategy that exchanges nothing between start and end does not
  // reach.
  test::ChildProcess run(
      compare({"--steps", "200", "--eval-every", "200", "--fault", "kill:rank=1,at=200"},
              "localsgd:period=1000"));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 1) << run.describe();
  EXPECT_TRUE(test::has(run.out(), "failed: rank 1 ("));
  EXPECT_TRUE(test::has(run.err(), "): killed by SIGKILL after")) << "its last lines are shown";
  const auto events = json_lines(contents(directory_ / "dense/events.jsonl"));
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events.front()["event"], "start");
  const auto& error = events[events.size() - 2];
  EXPECT_EQ(error["event"], "error");
  EXPECT_EQ(error["kind"], "lost");
  EXPECT_EQ(error["rank"], 0);
  EXPECT_EQ(error["peer"], 1);
  const auto& exit = events.back();
  EXPECT_EQ(exit["event"], "exit");
  EXPECT_EQ(exit["rank"], 1);
  EXPECT_EQ(exit["signal"], "SIGKILL");
  EXPECT_TRUE(exit["code"].is_null());
  EXPECT_EQ(exit["stopped"].size(), 0u);
  EXPECT_FALSE(fs::exists(directory_ / "dense/summary.json"));
  EXPECT_TRUE(fs::exists(directory_ / "localsgd,period=1000/summary.json")) << run.describe();
}

TEST_F(CompareCommand, ReplicasThatDifferAreNoResult) {
  const test::Words steps = {"--steps", "30", "--transport", "threads", "--eval-every", "30"};
  {
    // Damages the message in which rank 1 sends rank 0 a part of the sum, which both have by then.
    test::ChildProcess run(
        compare(steps + test::Words{"--fault", "corrupt:rank=1,at=27"}, "dense"));
    ASSERT_TRUE(run.wait(kPatience)) << run.describe();
    EXPECT_EQ(run.exit_code(), 1) << run.describe();
    EXPECT_TRUE(test::has(run.out(), "the replicas differ at the end")) << run.describe();
    EXPECT_TRUE(test::has(run.out(), "dense has not finished"));
    EXPECT_FALSE(fs::exists(directory_ / "dense/summary.json"));
    EXPECT_TRUE(test::has(contents(directory_ / "dense/summary-failed.json"), "\"dense\""));
  }
  // Its last checkpoint is no place to go on from.
  test::ChildProcess again(compare(steps, "dense"));
  ASSERT_TRUE(again.wait(kPatience)) << again.describe();
  EXPECT_EQ(again.exit_code(), 0) << again.describe();
  EXPECT_EQ(again.err().find("nothing is left to train"), std::string::npos) << again.describe();
}

TEST_F(CompareCommand, StrategiesCanBeAddedLater) {
  const test::Words steps = {"--steps", "10", "--transport", "threads", "--json"};
  test::ChildProcess first(compare(steps, "topk:density=0.1"));
  ASSERT_TRUE(first.wait(kPatience)) << first.describe();
  ASSERT_EQ(first.exit_code(), 0) << first.describe();
  test::ChildProcess second(compare(steps, "localsgd"));
  ASSERT_TRUE(second.wait(kPatience)) << second.describe();
  EXPECT_EQ(second.exit_code(), 0) << second.describe();
  EXPECT_EQ(json_lines(second.out()).size(), 3u);
  EXPECT_TRUE(test::has(contents(directory_ / "report.html"), "3 of 3 strategies"));
  EXPECT_TRUE(test::has(contents(directory_ / "compare.csv"), "\ntopk:density=0.1,"));
}

// As an interruption while the first checkpoint is written leaves it.
TEST_F(CompareCommand, DamagedCheckpointsDoNotBlockIt) {
  const test::Words command =
      compare({"--steps", "10", "--save-every", "5", "--transport", "threads"}, "dense");
  const auto damage = [&](const auto& chosen) {
    fs::remove(directory_ / "dense/summary.json");
    for (const auto& file : fs::directory_iterator(directory_ / "dense/checkpoints")) {
      if (file.is_regular_file() && chosen(file.path().filename().string())) {
        fs::resize_file(file, 10);
      }
    }
  };
  const auto run_again = [&] {
    test::ChildProcess run(command);
    EXPECT_TRUE(run.wait(kPatience)) << run.describe();
    EXPECT_EQ(run.exit_code(), 0) << run.describe();
    EXPECT_TRUE(fs::exists(directory_ / "dense/summary.json"));
    return run.err();
  };
  run_again();
  // Each rank has a step that is whole, but they have none in common.
  damage([](const std::string& name) {
    return name.find(name.find("rank-0") != name.npos ? "10-rank" : "05-rank") != name.npos;
  });
  EXPECT_TRUE(test::has(run_again(), "dense: it starts again from step 0"));
  damage([](const std::string&) { return true; });
  run_again();
}

TEST_F(CompareCommand, BadUsageIsRefusedBeforeAnythingStarts) {
  const struct {
    test::Words flags;
    std::string strategies;
    std::string_view expected;
  } kCases[] = {
      {{}, "dense; gtopc", "did you mean gtopk"},
      {{}, "dense; gtopk:density=2", "density is not allowed (2)"},
      {{"--strategy", "dense"}, "dense", "did you mean --strategies"},
      {{"--lr", "0"}, "dense", "--lr 0: it must be more than 0"},
      {{"--rank", "0", "--world-size", "2", "--master", "127.0.0.1:1"}, "dense", "by itself"},
  };
  for (const auto& [flags, strategies, expected] : kCases) {
    test::ChildProcess run(compare(flags, strategies));
    ASSERT_TRUE(run.wait(kPatience)) << run.describe();
    EXPECT_EQ(run.exit_code(), 2) << run.describe();
    EXPECT_TRUE(test::has(run.err(), expected));
    EXPECT_FALSE(fs::exists(directory_));
  }
}

TEST_F(CompareCommand, AnotherComparisonsDirectoryIsRefused) {
  const test::Words steps = {"--steps", "5", "--transport", "threads"};
  test::ChildProcess first(compare(steps, "dense"));
  ASSERT_TRUE(first.wait(kPatience)) << first.describe();
  ASSERT_EQ(first.exit_code(), 0) << first.describe();
  test::ChildProcess other(compare({"--steps", "6", "--transport", "threads"}, "dense"));
  ASSERT_TRUE(other.wait(kPatience)) << other.describe();
  EXPECT_EQ(other.exit_code(), 2);
  EXPECT_TRUE(test::has(other.err(), directory_.string()));
  EXPECT_TRUE(test::has(other.err(), "steps 5 instead of 6"));
}

}  // namespace
}  // namespace thinwire
