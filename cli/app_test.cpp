// The command line in one process: words, exit codes, lists, and bench on in-process transports.
#include <gtest/gtest.h>

#include <algorithm>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/memory.h"
#include "cli/test_call.h"
#include "testing/split_words.h"
#include "thinwire/launch.h"
#include "thinwire/strategy.h"

namespace thinwire::cli {
namespace {

using test::operator+;

Outcome bench(const test::Words& more, const Variables& variables = {}) {
  return call(test::Words{"bench", "allreduce"} + more, variables);
}

void expect_refused(const Outcome& outcome, std::initializer_list<std::string_view> parts) {
  EXPECT_EQ(outcome.code, launch::kBadUsage) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  for (const std::string_view part : parts) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " is not in: " << outcome.err;
  }
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

TEST(CommandLine, Version) {
  const Outcome outcome = call({"--version"});
  EXPECT_EQ(outcome.code, launch::kOk);
  EXPECT_EQ(outcome.out.find("thinwire "), 0u) << outcome.out;
}

TEST(CommandLine, HelpStartsWithExamples) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--help"},
                                                {"help"},
                                                {"help", "bench"},
                                                {"help", "list"},
                                                {"help", "plan"},
                                                {"help", "bench", "allreduce"},
                                                {"bench", "allreduce", "--help"},
                                                {"help", "bench", "select"},
                                                {"bench", "--help"}}) {
    const Outcome outcome = call(words);
    EXPECT_EQ(outcome.code, launch::kOk) << outcome.err;
    EXPECT_EQ(outcome.out.find("Examples:\n  thinwire "), 0u) << outcome.out;
    EXPECT_EQ(outcome.out.find("\n\n\n"), std::string::npos) << outcome.out;
  }
  EXPECT_NE(call({"help", "bench", "allreduce"}).out.find("Usage: thinwire bench allreduce ["),
            std::string::npos);
  expect_refused(call({"help", "bnch"}), {"did you mean bench?"});
}

TEST(CommandLine, UnknownWordsGetTheClosestMatch) {
  expect_refused(call({"bnech"}), {"command: unknown name (bnech)", "did you mean bench?"});
  expect_refused(call({"bench", "alreduce"}), {"did you mean allreduce?"});
  expect_refused(bench({"--numl", "3"}), {"--numl: unknown flag", "did you mean --numel?"});
  expect_refused(bench({"--numl=3"}), {"--numl: ", "did you mean --numel?"});
  expect_refused(bench({"--xyzzyx"}),
                 {"--xyzzyx: unknown flag", "thinwire bench allreduce --help"});
  expect_refused(call({"list", "strategy"}), {"did you mean strategies?"});
  expect_refused(bench({"extra"}), {"extra", "thinwire bench allreduce --help"});
  expect_refused(call({"bnech", "--help"}), {"command: unknown name (bnech)"});
  expect_refused(call({"--verbos", "bench", "allreduce"}),
                 {"--verbos: unknown flag", "'thinwire --help'"});
  expect_refused(bench({"--numl", "3", "--reps", "many"}), {"did you mean --numel?"});
  expect_refused(bench({"--\x1b[2J"}), {"--\\x1b[2J: unknown flag"});
  expect_refused(call({"--"}), {"thinwire: a command is missing", "bench"});
  expect_refused(call({}), {"Examples:"});
  expect_refused(call({"bench"}), {"thinwire bench: a command is missing", "allreduce"});
  expect_refused(call({"list"}), {"list: a word is missing", "strategies"});
}

TEST(CommandLine, ListsAreTheRegistries) {
  const auto expect_listed = [](const auto& parts, const std::string& listed) {
    for (const auto& entry : parts) {
      EXPECT_NE(listed.find(entry.name), std::string::npos);
      for (const SpecKey& key : strategy_keys(entry.name)) {
        EXPECT_NE(listed.find(key.name + "=" + key.fallback), std::string::npos) << listed;
      }
    }
  };
  expect_listed(strategies(), call({"list", "strategies"}).out);
  const std::string transports = call({"list", "transports"}).out;
  for (const TransportBackend& backend : transport_backends()) {
    EXPECT_NE(transports.find(backend.name), std::string::npos) << transports;
  }
  EXPECT_NE(call({"list", "data"}).out.find("digits"), std::string::npos);
}

TEST(BenchAllreduce, PrintsTheContractsKeys) {
  const Outcome outcome = bench(
      {"--transport", "threads", "--workers", "3", "--numel", "999,300k", "--reps", "3", "--json"});
  ASSERT_EQ(outcome.code, launch::kOk) << outcome.err;
  const auto lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 2u);
  const std::set<std::string> contract = {"strategy",
                                          "numel",
                                          "workers",
                                          "transport",
                                          "seconds_median",
                                          "seconds_min",
                                          "seconds_max",
                                          "seconds_codec",
                                          "bytes_per_worker",
                                          "reps",
                                          "wire_bound_seconds",
                                          "replicas_identical"};
  for (const nlohmann::json& line : lines) {
    std::set<std::string> keys;
    for (const auto& [key, value] : line.items()) keys.insert(key);
    EXPECT_EQ(keys, contract);
    EXPECT_EQ(line["strategy"], "dense");
    EXPECT_EQ(line["workers"], 3);
    EXPECT_EQ(line["transport"], "threads");
    EXPECT_EQ(line["reps"], 3);
    EXPECT_EQ(line["replicas_identical"], true);
    EXPECT_TRUE(line["wire_bound_seconds"].is_null());
    EXPECT_LE(line["seconds_min"], line["seconds_median"]);
    EXPECT_LE(line["seconds_median"], line["seconds_max"]);
  }
  EXPECT_EQ(lines[0]["numel"], 999);
  EXPECT_EQ(lines[1]["numel"], 300'000);
  // The ring sends 2 (P-1)/P of the data.
  EXPECT_EQ(lines[1]["bytes_per_worker"], 300'000 * 4 * 4 / 3);
}

TEST(BenchAllreduce, AloneSendsNothing) {
  const Outcome outcome = bench({"--transport", "threads", "--workers", "1", "--numel", "5000",
                                 "--network", "1gbit,1ms", "--json"});
  ASSERT_EQ(outcome.code, launch::kOk) << outcome.err;
  const auto lines = json_lines(outcome.out);
  EXPECT_EQ(lines.at(0)["bytes_per_worker"], 0);
  EXPECT_EQ(lines.at(0)["wire_bound_seconds"], 0.0);
}

// Virtual time is exact, so it can be asserted.
TEST(BenchAllreduce, NoTimeIsBelowTheWireBoundOfTheBytes) {
  for (const std::string_view transport : {"threads", "sim"}) {
    if (std::ranges::none_of(transport_backends(),
                             [&](const TransportBackend& e) { return e.name == transport; }))
      continue;
    const Outcome outcome =
        bench({"--transport", std::string(transport), "--workers", "2", "--numel", "100k",
               "--network", "1gbit,0.5ms", "--reps", "5", "--json"});
    ASSERT_EQ(outcome.code, launch::kOk) << outcome.err;
    const auto lines = json_lines(outcome.out);
    const double bytes = lines.at(0)["bytes_per_worker"];
    const double bound = lines.at(0)["wire_bound_seconds"];
    EXPECT_DOUBLE_EQ(bound, bytes * 8 / 1e9 + 0.0005);
    EXPECT_GE(lines.at(0)["seconds_min"], bound * (1 - 1e-6))
        << transport;  // counted in nanoseconds
  }
}

TEST(BenchAllreduce, PrintsATableForPeople) {
  const Outcome outcome = bench(
      {"--transport", "threads", "--workers", "2", "--numel", "1000", "--network", "1gbit,0.1ms"});
  ASSERT_EQ(outcome.code, launch::kOk) << outcome.err;
  for (const std::string_view part : {"dense all-reduce, 2 workers over threads", "1gbit,0.1ms",
                                      "median", "bus bandwidth", "wire bound", "ratio", "1000"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is not in: " << outcome.out;
  }
  EXPECT_EQ(outcome.out.find('\033'), std::string::npos) << "colours without a terminal";
  EXPECT_NE(outcome.err.find("1000 floats"), std::string::npos) << outcome.err;
}

TEST(BenchAllreduce, SaysWhenTimeIsSimulated) {
  const auto built = [](std::string_view name) {
    return std::ranges::any_of(transport_backends(),
                               [&](const TransportBackend& e) { return e.name == name; });
  };
  if (!built("sim")) GTEST_SKIP() << "sim is not in this build";
  const Outcome outcome = bench(
      {"--transport", "sim", "--workers", "2", "--numel", "1000", "--network", "1gbit,0.1ms"});
  ASSERT_EQ(outcome.code, launch::kOk) << outcome.err;
  EXPECT_NE(outcome.out.find("simulated (virtual) time"), std::string::npos) << outcome.out;
}

TEST(BenchAllreduce, RefusesNonsenseBeforeItStarts) {
  const auto refused = [](std::vector<std::string> arguments,
                          std::initializer_list<std::string_view> parts) {
    arguments.insert(arguments.end(), {"--transport", "threads"});
    expect_refused(bench(arguments), parts);
  };
  refused({"--strategy", "dens"}, {"strategy: unknown name (dens)", "mean dense?"});
  refused({"--strategy", "dense:dtype=fp8"}, {"dtype is not allowed (fp8)", "fp32"});
  refused({"--strategy", "gossip"}, {"--strategy gossip", "exchanges models"});
  refused({"--workers", "0"}, {"--workers 0"});
  refused({"--workers", "three"}, {"--workers", "three"});
  refused({"--numel", "0"}, {"--numel 0"});
  refused({"--numel", "10,x"}, {"--numel 10,x", "'x'"});
  refused({"--numel", "99999999999999999999"}, {"--numel"});
  refused({"--reps", "0"}, {"--reps 0"});
  refused({"--warmup", "-1"}, {"--warmup -1"});
  refused({"--timeout", "0"}, {"--timeout"});
  refused({"--join-timeout", "-3"}, {"--join-timeout"});
  refused({"--network", "fast"}, {"network 'fast'", "1gbit,0.2ms"});
  refused({"--fault", "kil:rank=1"}, {"did you mean kill?"});
  refused({"--fault", "kill:rank=9"}, {"rank is not allowed (9)"});
  expect_refused(bench({"--transport", "thread"}), {"did you mean threads?"});
}

TEST(BenchAllreduce, RefusesWhatDoesNotFitIntoMemory) {
  expect_refused(bench({"--transport", "threads", "--numel", "1000,900000M"}),
                 {"900000000000 floats", "4 workers", "GiB", "available"});
}

TEST(BenchAllreduce, RefusesLaunchersThatDoNotFit) {
  const Variables torchrun = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}};
  expect_refused(bench({"--transport", "threads"}, torchrun),
                 {"--transport threads", "one process", "torchrun started 2"});
  expect_refused(bench({"--transport", "threads", "--rank", "1"}), {"--world-size"});
  // The script of a Slurm job, which srun did not start, is one process.
  const Variables batch = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "1"}};
  EXPECT_EQ(bench({"--transport", "threads", "--numel", "10"}, batch).code, launch::kOk);
  Variables step = batch;
  step.emplace("SLURM_STEP_ID", "0");
  expect_refused(bench({"--transport", "threads"}, step), {"Slurm started 2"});
}

TEST(BenchAllreduce, AFailingWorkerIsExitCodeOne) {
  const Outcome outcome = bench({"--transport", "threads", "--workers", "3", "--numel", "1000",
                                 "--fault", "fail:rank=1,at=5"});
  EXPECT_EQ(outcome.code, launch::kRunFailed);
  EXPECT_NE(outcome.err.find("rank 1 fails at operation 5"), std::string::npos) << outcome.err;
}

TEST(BenchAllreduce, NoticesADamagedResult) {
  // Some flipped bit in the data of one exchange: the sum is wrong, or the replicas differ.
  const Outcome outcome = bench({"--transport", "threads", "--workers", "2", "--numel", "64",
                                 "--warmup", "0", "--reps", "1", "--fault", "corrupt:rank=1,at=2"});
  EXPECT_EQ(outcome.code, launch::kRunFailed) << outcome.out << outcome.err;
}

TEST(BenchSelect, PrintsTheContractsKeys) {
  const Outcome outcome = call({"bench", "select", "--numel", "20k", "--density", "0.01", "--reps",
                                "3", "--warmup", "2", "--json"});
  ASSERT_EQ(outcome.code, launch::kOk) << outcome.err;
  const auto lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 3u);
  const std::vector<std::string> kernels = {"plain", "momentum", "nth_element"};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const nlohmann::json& line = lines[i];
    EXPECT_EQ(line["kernel"], kernels[i]);
    EXPECT_EQ(line["numel"], 20'000);
    EXPECT_EQ(line["density"], 0.01);
    EXPECT_EQ(line["k"], 200);
    EXPECT_EQ(line["reps"], 3);
    EXPECT_EQ(line["exact"], true);
    EXPECT_GT(line["seconds_median"], 0.0);
    EXPECT_GT(line["add_seconds_median"], 0.0);
    EXPECT_DOUBLE_EQ(line["ratio_to_add"], line["seconds_median"].get<double>() /
                                               line["add_seconds_median"].get<double>());
  }
  EXPECT_GE(lines[0]["candidates"], 200);
}

TEST(BenchSelect, PrintsATableForPeople) {
  const Outcome outcome =
      call({"bench", "select", "--numel", "1000", "--density", "1", "--reps", "1"});
  ASSERT_EQ(outcome.code, launch::kOk) << outcome.err;
  for (const std::string_view part :
       {"1000 of 1000 floats", "r += g", "ratio", "B/float", "plain", "momentum", "nth_element"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is not in: " << outcome.out;
  }
}

TEST(BenchSelect, RefusesNonsenseBeforeItStarts) {
  const auto refused = [](std::vector<std::string> more,
                          std::initializer_list<std::string_view> parts) {
    more.insert(more.begin(), {"bench", "select"});
    expect_refused(call(more), parts);
  };
  refused({"--numel", "0"}, {"--numel 0"});
  refused({"--numel", "1k,2k"}, {"--numel 1k,2k"});
  refused({"--numel", "5000M"}, {"2^32"});
  // On a machine with more memory than one buffer needs, it may run.
  if (base::available_memory().value_or(UINT64_MAX) < 4'000'000'000 * sizeof(float)) {
    refused({"--numel", "4000M"}, {"GiB", "available"});
  }
  refused({"--density", "0"}, {"--density 0", "at most 1"});
  refused({"--density", "1.5"}, {"--density 1.5"});
  refused({"--density", "nan"}, {"--density nan"});
  refused({"--reps", "0"}, {"--reps 0"});
  refused({"--warmup", "-1"}, {"--warmup -1"});
  refused({"--densty", "1"}, {"did you mean --density?"});
}

}  // namespace
}  // namespace thinwire::cli
