// Comparisons: runs read back, directories, CSV.
#include "report/comparison.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "report/comparison_store.h"
#include "report/recommendation.h"
#include "report/table.h"
#include "testing/expect.h"
#include "testing/scratch_directory.h"
#include "testing/split_words.h"
#include "tests/sample_comparison.h"
#include "thinwire/error.h"

namespace thinwire::report {
namespace {

namespace fs = std::filesystem;

class ComparisonFiles : public testing::Test {
 protected:
  static void write(const fs::path& file, std::string_view text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string refusal(const Setting& setting) const {
    return test::must_throw<ConfigError>([&] { ComparisonStore(directory_, setting); }).what();
  }

  const Setting setting_ = {{"model", "mlp"}, {"data", "cifar10:some/where"}, {"batch", "32"}};
  const test::ScratchDirectory scratch_;
  const fs::path directory_ = scratch_.path() / "comparison";
};

constexpr std::string_view kSummary =
    R"({"strategy":"topk:density=0.1","workers":2,"steps":4,"accuracy":0.9,"loss":null,)"
    R"("seconds":8.0,"seconds_compute":3.0,"seconds_wire":4.0,"bytes_sent":800,)"
    R"("replicas_identical":true})";
constexpr std::string_view kLog = R"({"step":1,"bytes":100,"residual_ratio":0.5}
{"step":2,"bytes":100,"residual_ratio":0.7}
{"step":2,"first_step":1,"train_loss":1.0}
{"step":2,"time":4.0,"test_loss":0.2,"test_accuracy":0.8}
{"step":3,"bytes":0,"residual_ratio":0.7}
{"step":4,"bytes":0,"residual_ratio":0.7}
{"step":4,"time":8.0,"test_loss":0.1,"test_accuracy":0.9}
{"step":5,"by)";

TEST_F(ComparisonFiles, AFinishedRunIsReadBack) {
  const ComparisonStore store(directory_, setting_);
  const std::string spec = "topk:density=0.1";
  EXPECT_FALSE(store.finished_run(spec));
  const fs::path run = store.run_directory(spec);
  EXPECT_EQ(run.filename(), "topk,density=0.1");
  write(run / "run.jsonl", kLog);
  EXPECT_FALSE(store.finished_run(spec)) << "a log alone is a run that was interrupted";
  write(run / "summary.json", kSummary.substr(0, 50));
  EXPECT_FALSE(store.finished_run(spec)) << "half a summary";
  write(run / "summary.json", std::string(kSummary) + "\n");
  EXPECT_FALSE(read_run(run, "topk")) << "of another strategy";
  const auto read = store.finished_run(spec);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->summary, kSummary);
  EXPECT_EQ(read->steps, 4u);
  EXPECT_TRUE(read->diverged) << "its loss is no number";
  EXPECT_FALSE(read->loss);
  EXPECT_EQ(read->other_seconds(), 1);
  EXPECT_TRUE(read->replicas_identical);
  ASSERT_EQ(read->tests.size(), 2u);
  EXPECT_EQ(read->tests[0].seconds, 4);
  EXPECT_EQ(read->tests[0].bytes, 400) << "half of all bytes, rank 0's and the other's";
  EXPECT_EQ(read->tests[1].accuracy, 0.9);
  EXPECT_EQ(read->residuals.size(), 4u);
  EXPECT_TRUE(read->warnings.empty());
}

// Rank 0 of a gossip run may send only once, at the end, while the others have sent before.
TEST_F(ComparisonFiles, BytesOfDriftingWorkersAreNotRankZerosAlone) {
  const ComparisonStore store(directory_, setting_);
  const std::string spec = "topk:density=0.1";
  std::string drifted(kSummary);
  drifted.replace(drifted.find("\"loss\""), 6, "\"consensus_distance\":0.1,\"loss\"");
  write(store.run_directory(spec) / "summary.json", drifted);
  write(store.run_directory(spec) / "run.jsonl",
        R"({"step":2,"time":4.0,"test_loss":0.2,"test_accuracy":0.8})"
        "\n"
        R"({"step":4,"bytes":100})"
        "\n");
  const auto read = store.finished_run(spec);
  ASSERT_TRUE(read);
  ASSERT_EQ(read->tests.size(), 1u);
  EXPECT_EQ(read->tests[0].bytes, 200) << "half of the time, half of the bytes";
}

TEST_F(ComparisonFiles, WarningsStayWithTheirRun) {
  using Attempt = ComparisonStore::Attempt;
  const ComparisonStore store(directory_, setting_);
  const std::string spec = "topk:density=0.1";
  write(store.run_directory(spec) / "summary.json", kSummary);
  const auto warnings = [&] { return store.finished_run(spec)->warnings; };
  store.begin_run(spec, Attempt::from_start);
  store.add_warnings(spec, {"too\nshort"});
  EXPECT_EQ(warnings(), test::Words{"too short"});
  store.begin_run(spec, Attempt::resumed);
  store.add_warnings(spec, {});
  store.add_warnings(spec, {"[rank 1] too thin"});
  EXPECT_EQ(warnings(), (test::Words{"too short", "[rank 1] too thin"}));
  store.begin_run(spec, Attempt::from_start);
  EXPECT_TRUE(warnings().empty());
  store.add_warnings(spec, test::Words(9, "not finite"));
  EXPECT_EQ(warnings(), (test::Words{"not finite", "not finite", "7 more like these"}));
}

TEST_F(ComparisonFiles, ARunThatFailedIsNotFinished) {
  const ComparisonStore store(directory_, setting_);
  const std::string spec = "topk:density=0.1";
  const fs::path summary = store.run_directory(spec) / "summary.json";
  std::string differing(kSummary);
  differing.replace(differing.find("true"), 4, "false");
  write(summary, differing);
  EXPECT_FALSE(store.finished_run(spec)) << "its replicas differ";
  write(summary, kSummary);
  ASSERT_TRUE(store.finished_run(spec));
  const fs::path checkpoint = store.run_directory(spec) / "checkpoints" / "step-1";
  for (int time = 0; time < 2; ++time) {
    write(checkpoint, "model");
    write(summary, kSummary);
    store.set_aside(spec);
    EXPECT_FALSE(store.finished_run(spec));
    EXPECT_FALSE(fs::exists(checkpoint)) << "nothing to go on from";
  }
  write(checkpoint, "model");
  store.set_aside(spec);
  EXPECT_TRUE(fs::exists(checkpoint)) << "of a run that has not come to its end";
}

TEST_F(ComparisonFiles, EveryFinishedRunIsFound) {
  const ComparisonStore store(directory_, setting_);
  write(store.run_directory("topk:density=0.1") / "summary.json", kSummary);
  write(directory_ / "copy" / "summary.json", kSummary);
  write(directory_ / "dense" / "run.jsonl", kLog);
  write(directory_ / "qsgd" / "summary.json", "[1]");
  const std::vector<ComparedRun> runs = store.finished_runs();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].strategy, "topk:density=0.1");
}

TEST_F(ComparisonFiles, ADirectoryBelongsToOneSetting) {
  { const ComparisonStore first(directory_, setting_); }
  { const ComparisonStore again(directory_, setting_); }
  Setting other = setting_;
  other.back().second = "64";
  EXPECT_TRUE(test::has(refusal(other), "batch 32 instead of 64"));
  other.back() = {"momentum", "0.9"};
  EXPECT_TRUE(test::has(refusal(other), "momentum not recorded"));
  write(directory_ / "compare.json", "{");
  EXPECT_TRUE(test::has(refusal(setting_), "damaged"));
}

TEST_F(ComparisonFiles, AForeignDirectoryIsRefused) {
  write(directory_ / "thesis.tex", "years of work");
  EXPECT_TRUE(test::has(refusal(setting_), directory_.string()));
  EXPECT_TRUE(test::has(refusal(setting_), "not of a comparison"));
}

TEST_F(ComparisonFiles, TheDefaultNameFollowsFromTheSetting) {
  Setting other = setting_;
  other.back().second = "64";
  const std::string name = ComparisonStore::default_name(setting_);
  EXPECT_EQ(name.find("compare-mlp-cifar10-"), 0u) << name;
  EXPECT_EQ(name, ComparisonStore::default_name(setting_));
  EXPECT_NE(name, ComparisonStore::default_name(other));
}

// One spec has a comma, which CSV must quote.
Comparison sample_with_comma() {
  Comparison comparison = sample_comparison();
  comparison.runs[1].strategy = "gtopk:density=0.1,values=fp32";
  return comparison;
}

TEST(ComparisonCsv, HasALinePerResultAndQuotes) {
  const Comparison comparison = sample_with_comma();
  std::istringstream csv(comparison_csv(comparison, recommend(comparison)));
  test::Words lines;
  for (std::string line; std::getline(csv, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].find("strategy,accuracy,"), 0u);
  EXPECT_EQ(lines[2].find("\"gtopk:density=0.1,values=fp32\",0.95,"), 0u) << lines[2];
  // One comma of the second line is inside quotes.
  EXPECT_EQ(std::ranges::count(lines[2], ','), std::ranges::count(lines[0], ',') + 1);
}

TEST(ComparisonCsv, LeavesOutWhatIsNotKnown) {
  Comparison comparison = sample_with_comma();
  comparison.runs[0] = comparison.runs[2];  // no baseline
  comparison.runs[0].strategy = "dense";
  const Recommendation recommendation = recommend(comparison);
  const std::string row =
      CompareTable(comparison)
          .row(comparison.runs[1], recommendation.comparisons[1], recommendation, "");
  EXPECT_EQ(row.find("never"), std::string::npos) << row;
  EXPECT_EQ(row.find("1.00x"), std::string::npos) << row;
  // The loss, the target, time and bytes to it, and the three factors are empty.
  EXPECT_TRUE(
      test::has(comparison_csv(comparison, recommendation), "values=fp32\",0.95,0.95,,,,,,,,100,"));
}

}  // namespace
}  // namespace thinwire::report
