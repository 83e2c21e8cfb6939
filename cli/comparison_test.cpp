// Comparisons: strategies as asked for, runs read back, directories, CSV, the page, progress.
#include "cli/comparison.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "cli/compare_progress.h"
#include "cli/comparison_store.h"
#include "cli/report_page.h"
#include "cli/strategy_list.h"
#include "tests/expect.h"
#include "tests/words.h"
#include "thinwire/error.h"

namespace thinwire::cli {
namespace {

namespace fs = std::filesystem;

TEST(StrategyList, IsCheckedAndKeepsItsOrder) {
  EXPECT_EQ(parse_strategies("gtopk; qsgd:bits=2 ;"), (Words{"gtopk", "qsgd:bits=2"}));
  EXPECT_EQ(parse_strategies("topk;dense"), (Words{"topk", "dense"}));
  EXPECT_EQ(parse_strategies("gtopk:shape=tree,density=0.01")[0], "gtopk:density=0.01,shape=tree");
  const auto refusal = [](const char* text) {
    return std::string(must_throw<ConfigError>([&] { parse_strategies(text); }).what());
  };
  EXPECT_TRUE(has(refusal("dense; gtopc"), "did you mean 'gtopk'"));
  EXPECT_TRUE(has(refusal("dense; gtopk:densty=1"), "densty"));
  EXPECT_TRUE(has(refusal("topk:density=0.1,values=fp32; topk:values=fp32,density=0.1"), "twice"));
  EXPECT_TRUE(has(refusal(" ; "), "at least one"));
}

class ComparisonFiles : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(directory_); }
  void TearDown() override { fs::remove_all(directory_); }

  static void write(const fs::path& file, std::string_view text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string refusal(const Setting& setting) const {
    return must_throw<ConfigError>([&] { ComparisonStore(directory_, setting); }).what();
  }

  const Setting setting_ = {{"model", "mlp"}, {"data", "cifar10:some/where"}, {"batch", "32"}};
  const fs::path directory_ =
      fs::path(testing::TempDir()) / fmt::format("thinwire_comparison_{}", getpid());
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

// Rank 0 of a gossip may speak once, at the end: the others have not been silent until then.
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
  store.begin_run(spec, Attempt::anew);
  store.add_warnings(spec, {"thinwire: warning: too short", "[rank 1] noise", "epoch 1",
                            "thinwire: interrupted; all 2 workers have stopped"});
  EXPECT_EQ(warnings(), Words{"too short"});
  store.begin_run(spec, Attempt::resumed);
  store.add_warnings(spec,
                     {"thinwire: resuming after step 20", "[rank 1] thinwire: warning: too thin"});
  EXPECT_EQ(warnings(), (Words{"too short", "[rank 1] too thin"}));
  store.begin_run(spec, Attempt::anew);
  EXPECT_TRUE(warnings().empty());
  store.add_warnings(spec, Words(9, "thinwire: warning: not finite"));
  EXPECT_EQ(warnings(), (Words{"not finite", "not finite", "7 more like these"}));
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
  EXPECT_TRUE(has(refusal(other), "batch 32 instead of 64"));
  other.back() = {"momentum", "0.9"};
  EXPECT_TRUE(has(refusal(other), "momentum not told"));
  write(directory_ / "compare.json", "{");
  EXPECT_TRUE(has(refusal(setting_), "damaged"));
}

TEST_F(ComparisonFiles, AForeignDirectoryIsRefused) {
  write(directory_ / "thesis.tex", "years of work");
  EXPECT_TRUE(has(refusal(setting_), directory_.string()));
  EXPECT_TRUE(has(refusal(setting_), "not of a comparison"));
}

TEST_F(ComparisonFiles, TheDefaultNameFollowsFromTheSetting) {
  Setting other = setting_;
  other.back().second = "64";
  const std::string name = ComparisonStore::default_name(setting_);
  EXPECT_EQ(name.find("compare-mlp-cifar10-"), 0u) << name;
  EXPECT_EQ(name, ComparisonStore::default_name(setting_));
  EXPECT_NE(name, ComparisonStore::default_name(other));
}

Comparison sample() {
  Comparison comparison;
  comparison.title = "lenet on text:<b>\"a\" & 'b'.txt";
  comparison.command = "thinwire compare --data 'text:<b>'";
  comparison.setting = {{"data", "text:<b>"}};
  ComparedRun dense;
  dense.strategy = "dense";
  dense.summary = "{}";
  dense.accuracy = 0.95;
  dense.seconds = 10;
  dense.steps = 100;
  dense.bytes_sent = dense.bytes_per_worker_step = 1000;
  dense.tests = {{50, 5, 250, 0.5}, {100, 10, 500, 0.95}};
  ComparedRun gtopk = dense;
  gtopk.strategy = "gtopk:density=0.1,shape=tree";
  gtopk.residuals = {{1, 0.5}, {2, 2}};
  gtopk.consensus_distance = 0.01;
  ComparedRun failed;
  failed.strategy = "lasgd";
  failed.problem = "said <script>alert(1)</script>";
  comparison.runs = {dense, gtopk, failed};
  return comparison;
}

TEST(ComparisonCsv, HasALinePerResultAndQuotes) {
  const Comparison comparison = sample();
  std::istringstream csv(comparison_csv(comparison, judge(comparison)));
  Words lines;
  for (std::string line; std::getline(csv, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].find("strategy,accuracy,"), 0u);
  EXPECT_EQ(lines[2].find("\"gtopk:density=0.1,shape=tree\",0.95,"), 0u) << lines[2];
  // One comma of the second line is inside quotes.
  EXPECT_EQ(std::ranges::count(lines[2], ','), std::ranges::count(lines[0], ',') + 1);
}

TEST(ComparisonCsv, LeavesOutWhatIsNotKnown) {
  Comparison comparison = sample();
  comparison.runs[0] = comparison.runs[2];  // no baseline
  comparison.runs[0].strategy = "dense";
  const Verdict verdict = judge(comparison);
  const std::string row =
      CompareTable(comparison).row(comparison.runs[1], verdict.standings[1], verdict, "");
  EXPECT_EQ(row.find("never"), std::string::npos) << row;
  EXPECT_EQ(row.find("1.00x"), std::string::npos) << row;
  // Without loss, target, time and bytes to it, and the three factors.
  EXPECT_TRUE(has(comparison_csv(comparison, verdict), "shape=tree\",0.95,0,,,,,,,,100,"));
  EXPECT_EQ(report_page(comparison, verdict).find("<td>never</td>"), std::string::npos);
}

TEST(ReportPage, ShowsTheWorstWorkerWhereItDiffers) {
  Comparison comparison = sample();
  for (ComparedRun& run : comparison.runs) run.accuracy_worst_worker = run.accuracy;
  EXPECT_EQ(report_page(comparison, judge(comparison)).find("worst worker"), std::string::npos);
  comparison.runs[1].accuracy_worst_worker = 0.9;
  const std::string page = report_page(comparison, judge(comparison));
  EXPECT_TRUE(has(page, "<th scope=\"col\">worst worker</th>"));
  EXPECT_TRUE(has(page, "<td>90.00 %</td>"));
}

TEST(ReportPage, StandsWithResidualsOfZero) {
  Comparison comparison = sample();
  comparison.runs[1].residuals = {{1, 0}, {2, 0}};
  EXPECT_EQ(report_page(comparison, judge(comparison)).find("Residual ratio"), std::string::npos);
}

TEST(ReportPage, EscapesWhatComesFromOutside) {
  const Comparison comparison = sample();
  const std::string page = report_page(comparison, judge(comparison));
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_TRUE(has(page, "&lt;script&gt;alert(1)"));
}

TEST(ReportPage, NeedsNothingElse) {
  const Comparison comparison = sample();
  const std::string page = report_page(comparison, judge(comparison));
  for (const std::string_view outside : {"http:", "https:", "src=", "@import", "url(", "<link"}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  for (const std::string_view part :
       {"prefers-color-scheme: dark", "name=\"viewport\"", "Accuracy against time",
        "Accuracy against bytes", "Where a step's time goes", "Bytes per step", "Residual ratio",
        "Consensus distance", "<table>"}) {
    EXPECT_TRUE(has(page, part));
  }
}

TEST(ReportPage, StandsWithoutAnyResult) {
  Comparison comparison;
  comparison.runs.resize(1);
  comparison.runs[0].strategy = "dense";
  EXPECT_TRUE(has(report_page(comparison, judge(comparison)), "not run yet"));
}

class Watching : public testing::Test {
 protected:
  std::string lines_of(bool live) {
    std::ostringstream out, err;
    Io io{out, err, [](std::string_view) { return std::nullopt; }, live};
    const Comparison comparison = sample();
    {
      CompareProgress progress(io, comparison);
      progress.begin(2);
      RunOutput output(progress, "epoch ");
      output.stream() << "epoch 0.1" << std::flush << "  step 1/9\n";
      output.stream() << kEraseLine << "epoch 0.2  step 2/9" << std::flush;
      Io run{out, output.stream(), io.env, true};
      print_error(run, "a warning");
      messages_ = progress.messages();
      progress.end();
    }
    EXPECT_EQ(out.str(), "");
    return err.str();
  }
  Words messages_;
};

TEST_F(Watching, PlainLinesElsewhere) {
  EXPECT_EQ(lines_of(false),
            "[3/3] lasgd\nepoch 0.1  step 1/9\nthinwire: a warning\n"
            "lasgd failed: said <script>alert(1)</script>\n");
  EXPECT_EQ(messages_, Words{"thinwire: a warning"});
}

TEST_F(Watching, ATableOnATerminal) {
  const std::string text = lines_of(true);
  EXPECT_TRUE(has(text, "epoch 0.2  step 2/9"));
  EXPECT_TRUE(has(text, "thinwire: a warning\n"));
  EXPECT_TRUE(text.ends_with("\033[4A\033[J")) << "the table is gone at the end";
}

}  // namespace
}  // namespace thinwire::cli
