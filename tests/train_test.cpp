// thinwire train, end to end: started in every way, killed, interrupted and resumed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "testing/expect.h"
#include "tests/trainer_command.h"

namespace thinwire {
namespace {

using test::operator+;

namespace fs = std::filesystem;

class TrainCommand : public TrainerCommand {
 protected:
  static test::Words train(const test::Words& flags) {
    return test::Words{THINWIRE, "train", "--model", "mlp", "--batch", "16"} + flags;
  }
  static nlohmann::json result(const test::Words& command) {
    test::ChildProcess run(command);
    EXPECT_TRUE(run.wait(kPatience)) << run.describe();
    EXPECT_EQ(run.exit_code(), 0) << run.describe();
    const std::string out = run.out();
    const std::size_t end = out.find_last_not_of('\n');
    return nlohmann::json::parse(out.substr(out.rfind('\n', end) + 1), nullptr, false);
  }
  std::string out(std::string_view name) const { return (directory_ / name).string(); }
  static fs::path model_file(const std::string& run, int step) {
    return fs::path(run) / fmt::format("checkpoints/step-{:012}-model.ck", step);
  }
};

TEST_F(TrainCommand, ReportsWhatTheContractPromises) {
  const auto json = result(train({"--workers", "2", "--steps", "30", "--out", out("a"),
                                  "--eval-every", "10", "--check-every", "7", "--json"}));
  for (const char* key : {"command",
                          "strategy",
                          "model",
                          "data",
                          "workers",
                          "transport",
                          "network",
                          "steps",
                          "samples",
                          "loss",
                          "accuracy",
                          "accuracy_worst_worker",
                          "seconds",
                          "seconds_compute",
                          "seconds_codec",
                          "seconds_wire",
                          "seconds_wait",
                          "bytes_sent",
                          "bytes_per_worker_step",
                          "dense_bytes_per_worker_step",
                          "replicas_identical",
                          "consensus_distance",
                          "skipped_steps",
                          "residual_ratio",
                          "stragglers",
                          "detail"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["steps"], 30);
  EXPECT_EQ(json["samples"], 30 * 2 * 16);
  EXPECT_EQ(json["replicas_identical"], true);
  EXPECT_GT(json["accuracy"], 0.2);
  EXPECT_EQ(nlohmann::json::parse(contents(out("a/summary.json"))), json);
  int steps = 0, tests = 0, meetings = 0;
  std::ifstream log(out("a/run.jsonl"));
  for (std::string line; std::getline(log, line);) {
    const auto entry = nlohmann::json::parse(line);
    tests += entry.contains("test_accuracy");
    meetings += entry.contains("train_loss");
    steps += entry.contains("loss");
  }
  EXPECT_EQ(steps, 30);
  EXPECT_EQ(tests, 3);
  EXPECT_EQ(meetings, 3);
  EXPECT_TRUE(fs::exists(model_file(out("a"), 30)));
}

std::vector<nlohmann::json> events_in(const std::string& text) {
  std::vector<nlohmann::json> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    out.push_back(nlohmann::json::parse(line));
    EXPECT_TRUE(out.back()["event"].is_string()) << line;
    EXPECT_TRUE(out.back()["at"].is_number()) << line;
  }
  return out;
}

// docs/events.md promises these fields.
TEST_F(TrainCommand, TellsItsCourseAsEvents) {
  const std::map<std::string, std::vector<std::string>> fields = {
      {"start", {"version", "thinwire", "command", "options"}},
      {"joined", {"workers", "hosts"}},
      {"step",
       {"step", "steps", "position", "epoch", "seconds", "loss", "lr", "bytes", "bytes_total",
        "seconds_compute", "seconds_codec", "seconds_wire", "residual_ratio", "samples_per_second",
        "seconds_left"}},
      {"evaluated",
       {"step", "position", "epoch", "seconds", "train_loss", "test_loss", "test_accuracy"}},
      {"saved", {"step"}},
      {"finish", {"summary"}},
  };
  for (const char* transport : {"gloo", "threads"}) {
    const std::string file = out("events.jsonl");
    const auto summary =
        result(train({"--workers", "2", "--steps", "10", "--out", out("a"), "--eval-every", "5",
                      "--save-every", "5", "--json", "--transport", transport, "--events", file}));
    std::map<std::string, int> count;
    const auto events = events_in(contents(file));
    for (const auto& event : events) {
      const auto expected = fields.find(event["event"].get<std::string>());
      if (event["event"] == "note") continue;  // of the second run, about the first
      ASSERT_NE(expected, fields.end()) << event;
      ++count[expected->first];
      for (const std::string& key : expected->second) EXPECT_TRUE(event.contains(key)) << key;
      EXPECT_EQ(event.size(), expected->second.size() + 2) << event;
    }
    const std::map<std::string, int> expected = {{"start", 1},     {"joined", 1}, {"step", 10},
                                                 {"evaluated", 2}, {"saved", 2},  {"finish", 1}};
    EXPECT_EQ(count, expected) << transport;
    EXPECT_EQ(events.front()["version"], 1);
    EXPECT_EQ(events.front()["options"]["workers"], 2);
    EXPECT_EQ(events.back()["summary"], summary);
  }
}

TEST_F(TrainCommand, TellsWhatTheStrategyDecides) {
  const std::string file = out("events.jsonl");
  for (const char* transport : {"gloo", "threads"}) {
    test::ChildProcess run(train({"--workers", "2", "--steps", "3", "--strategy", "topk", "--out",
                                  out(transport), "--transport", transport, "--events", file}));
    ASSERT_TRUE(run.wait(kPatience)) << run.describe();
    EXPECT_EQ(run.exit_code(), 0) << run.describe();
    std::vector<std::string> notes;
    for (const auto& event : events_in(contents(file))) {
      if (event["event"] == "note") notes.push_back(event["text"].get<std::string>());
    }
    ASSERT_EQ(notes.size(), 1u) << transport;
    EXPECT_TRUE(test::has(notes[0], "density=auto: 1 of"));
    EXPECT_TRUE(test::has(run.err(), notes[0]));
  }
}

TEST_F(TrainCommand, EveryRankAddsItsErrorToTheEvents) {
  fs::create_directories(directory_);
  const std::string file = out("events.jsonl");
  test::ChildProcess run(train({"--workers", "3", "--steps", "100000", "--events", file,
                                "--timeout", "20", "--fault", "fail:rank=1,at=50"}));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 1) << run.describe();
  std::map<int, nlohmann::json> errors;
  for (const auto& event : events_in(contents(file))) {
    if (event["event"] == "error") errors[event["rank"].get<int>()] = event;
  }
  ASSERT_EQ(errors.size(), 3u) << contents(file);
  const nlohmann::json exit = events_in(contents(file)).back();
  EXPECT_EQ(exit["event"], "exit");
  EXPECT_EQ(exit["rank"], 1) << exit;
  EXPECT_EQ(exit["code"], 1) << exit;
  EXPECT_TRUE(exit["signal"].is_null()) << exit;
  EXPECT_EQ(exit["host"], errors[0]["host"]);
  EXPECT_GT(exit["seconds"], 0) << exit;
  EXPECT_TRUE(exit["stopped"].is_array()) << exit;
  EXPECT_TRUE(exit["text"].is_string()) << exit;
  EXPECT_EQ(errors[1]["kind"], "failure");
  for (const int survivor : {0, 2}) {
    const nlohmann::json& error = errors[survivor];
    EXPECT_EQ(error["kind"], "lost") << error;
    EXPECT_EQ(error["peer"], 1) << error;
    for (const char* key : {"host", "operation", "text", "remedy"}) {
      EXPECT_TRUE(error[key].is_string()) << error;
    }
    for (const char* key : {"bytes_done", "bytes_total", "seconds"}) {
      EXPECT_TRUE(error[key].is_number()) << error;
    }
    EXPECT_TRUE(error.contains("hint"));
  }
}

TEST_F(TrainCommand, AnEventFileThatCannotBeWrittenIsRefused) {
  test::ChildProcess run(train({"--workers", "2", "--steps", "5", "--events", out("no/file")}));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 2) << run.describe();
  EXPECT_TRUE(test::has(run.err(), "no/file: it cannot be written"));
}

TEST_F(TrainCommand, IsTheSameRunOnEveryTransport) {
  const test::Words flags = {"--workers", "3", "--steps", "12", "--json"};
  const auto gloo = result(train(flags));
  EXPECT_EQ(gloo["transport"], "gloo");
  const auto threads = result(train(flags + test::Words{"--transport", "threads"}));
  EXPECT_EQ(gloo["loss"], threads["loss"]);
  EXPECT_EQ(gloo["accuracy"], threads["accuracy"]);
  if (*MPIRUN == '\0') return;
  const auto mpi = result(test::Words{MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", "3"} +
                          train({"--steps", "12", "--json", "--transport", "mpi"}));
  EXPECT_EQ(mpi["loss"], gloo["loss"]);
}

TEST_F(TrainCommand, NamesTheStraggler) {
  const test::Words flags = {"--transport", "sim",   "--workers",   "3",   "--steps", "5",
                             "--network",   "1gbit", "--step-time", "0.1", "--slow",  "2:3"};
  const auto json = result(train(flags + test::Words{"--json"}));
  ASSERT_EQ(json["stragglers"].size(), 1u) << json;
  EXPECT_EQ(json["stragglers"][0]["rank"], 2);
  EXPECT_NEAR(json["stragglers"][0]["compute_ratio"], 3, 1e-6);
  EXPECT_NEAR(json["stragglers"][0]["waited_seconds"], 1, 0.01);  // 5 x (0.3 - 0.1) s
  test::ChildProcess run(train(flags));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_TRUE(test::has(run.out(),
                        "rank 2 (simulated) computed 3.0x as long as the others; they waited "
                        "999 ms for it, 64 %"));
}

// Killed at whatever moment a checkpoint appears, again and again, and resumed each time: the end
// is that of a run that nobody disturbed.
TEST_F(TrainCommand, ResumesBitForBitAfterSigkill) {
  const test::Words flags = {"--workers",     "2",      "--steps", "400", "--save-every", "20",
                             "--lr-schedule", "cosine", "--json"};
  const auto whole = result(train(flags + test::Words{"--out", out("whole")}));
  test::Words resume;
  for (const int checkpoint : {40, 160, 280}) {
    test::ChildProcess run(train(flags + test::Words{"--out", out("parts")} + resume));
    const auto start = std::chrono::steady_clock::now();
    while (!fs::exists(model_file(out("parts"), checkpoint)) && !run.wait(Seconds(0.001))) {
      ASSERT_LT(std::chrono::steady_clock::now() - start, kPatience) << run.describe();
    }
    run.kill_all();
    ASSERT_TRUE(run.wait(kPatience));
    // The last line of a killed writer can be anything.
    std::ofstream(out("parts/run.jsonl"), std::ios::app) << "{\"step\":\"a\"}\n{\"step\":";
    resume = {"--resume"};
  }
  const auto rest = result(train(flags + test::Words{"--out", out("parts")} + resume));
  EXPECT_EQ(rest["loss"], whole["loss"]);
  EXPECT_EQ(rest["samples"], whole["samples"]);
  EXPECT_EQ(contents(model_file(out("parts"), 400)), contents(model_file(out("whole"), 400)));
  int lines = 0;
  std::ifstream log(out("parts/run.jsonl"));
  for (std::string line; std::getline(log, line);)
    lines += line.find("\"lr\"") != std::string::npos;
  EXPECT_EQ(lines, 400);  // every step once, though some were run twice
}

TEST_F(TrainCommand, ADeadWorkerEndsTheRunWithItsName) {
  test::ChildProcess run(
      train({"--workers", "3", "--steps", "500", "--fault", "kill:rank=1,at=200"}));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 1);
  EXPECT_TRUE(test::has(run.err(), "rank 1"));
  EXPECT_TRUE(test::has(run.err(), "SIGKILL"));
  EXPECT_TRUE(run.wait_for_descendants(kPatience));
}

TEST_F(TrainCommand, CtrlCStopsAllWorkers) {
  test::ChildProcess run(train({"--workers", "2", "--epochs", "1000"}));
  ASSERT_TRUE(run.wait_for_output("loss", kPatience)) << run.describe();
  run.signal(SIGINT);
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 130);
  EXPECT_TRUE(run.wait_for_descendants(kPatience));
}

TEST_F(TrainCommand, BadUsageIsRefusedBeforeAnythingStarts) {
  const struct {
    test::Words flags;
    std::string_view expected;
  } kCases[] = {
      {{"--model", "lenett"}, "did you mean lenet"},
      {{"--data", "digit"}, "did you mean digits"},
      {{"--data", "mnist:/nowhere"}, "/nowhere"},
      {{"--strategy", "dens"}, "did you mean dense"},
      {{"--lr-schedule", "cosin"}, "did you mean cosine"},
      {{"--slow", "9:2"}, "--slow 9:2"},
      {{"--lr", "-1"}, "--lr"},
      {{"--resume"}, "--resume: --out DIR is needed"},
      {{"--steps", "3", "--epochs", "2"}, "only one of"},
      {{"--workers", "0"}, "--workers"},
  };
  for (const auto& [flags, expected] : kCases) {
    test::ChildProcess run(test::Words{THINWIRE, "train"} + flags);
    ASSERT_TRUE(run.wait(kPatience)) << run.describe();
    EXPECT_EQ(run.exit_code(), 2) << run.describe();
    EXPECT_TRUE(test::has(run.err(), expected));
  }
}

TEST_F(TrainCommand, AnotherNumberOfWorkersCannotResume) {
  result(train({"--workers", "2", "--steps", "4", "--out", out("a"), "--json"}));
  test::ChildProcess run(train({"--workers", "3", "--steps", "8", "--out", out("a"), "--resume"}));
  ASSERT_TRUE(run.wait(kPatience)) << run.describe();
  EXPECT_EQ(run.exit_code(), 2);  // before anything starts
  EXPECT_TRUE(test::has(run.err(), "another number of workers (2; this run has 3)"));
}

TEST_F(TrainCommand, AFinishedRunHasNothingToResume) {
  const test::Words flags = {"--transport", "threads", "--workers", "2",
                             "--steps",     "4",       "--out",     out("a")};
  const auto first = result(train(flags + test::Words{"--json"}));
  test::ChildProcess again(train(flags + test::Words{"--resume", "--json"}));
  ASSERT_TRUE(again.wait(kPatience)) << again.describe();
  EXPECT_EQ(again.exit_code(), 0);
  EXPECT_TRUE(test::has(again.err(), "nothing is left to train"));
  EXPECT_EQ(nlohmann::json::parse(again.out())["loss"], first["loss"]);
  test::ChildProcess fresh(train(flags));
  ASSERT_TRUE(fresh.wait(kPatience)) << fresh.describe();
  EXPECT_TRUE(test::has(fresh.err(), "held an earlier run"));
}

}  // namespace
}  // namespace thinwire
