// The runs of a comparison, in which a function stands for the training.
#include "report/comparison_runner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "testing/scratch_directory.h"

namespace thinwire::report {
namespace {

class RunsOfComparison : public testing::Test {
 protected:
  ComparisonRunner runner(std::vector<std::string> strategies) {
    Comparison comparison;
    comparison.setting = {{"model", "mlp"}};
    for (std::string& strategy : strategies) {
      comparison.runs.emplace_back().strategy = std::move(strategy);
    }
    RunFunctions functions;
    functions.train = [this](const RunRequest& run, launch::Io&) { return train(run); };
    functions.can_resume = [this](const std::string& strategy, const std::filesystem::path&) {
      return strategy == resumable_;
    };
    return {comparison, ComparisonStore(scratch_.path() / "comparison", comparison.setting),
            std::move(functions)};
  }

  int run(ComparisonRunner& runner) {
    std::ostringstream out, err;
    launch::Io io{out, err, [](std::string_view) { return std::nullopt; }, false};
    finished_.clear();
    return runner.run(io, [&](const ComparedRun& run) { finished_.push_back(run.strategy); });
  }

  std::string resumable_;                        // the strategy that has a checkpoint
  std::function<int(const RunRequest&)> ending_  // of a run, instead of kOk
      = [](const RunRequest&) { return launch::kOk; };
  std::vector<std::string> trained_, finished_;

 private:
  int train(const RunRequest& run) {
    trained_.push_back(run.strategy + (run.resume ? " resumed" : ""));
    const int code = ending_(run);
    if (code == launch::kOk) {
      create_directories(run.directory);
      std::ofstream(run.directory / "run.jsonl");
      std::ofstream(run.directory / "summary.json") << fmt::format(
          R"({{"strategy":"{}","workers":2,"steps":4,"accuracy":0.9,"loss":0.1,"seconds":8.0,)"
          R"("seconds_compute":3.0,"seconds_wire":4.0,"bytes_sent":800,"replicas_identical":true}})",
          run.strategy);
    }
    return code;
  }

  const test::ScratchDirectory scratch_;
};

using Strings = std::vector<std::string>;

TEST_F(RunsOfComparison, AreMadeInOrderAndNeverTwice) {
  ComparisonRunner first = runner({"dense", "topk"});
  EXPECT_EQ(run(first), launch::kOk);
  EXPECT_EQ(finished_, (Strings{"dense", "topk"}));
  EXPECT_TRUE(exists(first.page()));
  ComparisonRunner second = runner({"qsgd", "dense"});
  EXPECT_EQ(run(second), launch::kOk);
  EXPECT_EQ(trained_, (Strings{"dense", "topk", "qsgd"}));
  EXPECT_EQ(finished_, (Strings{"qsgd", "dense", "topk"}))
      << "also those that were asked for before";
}

TEST_F(RunsOfComparison, GoOnAfterOneThatFails) {
  ending_ = [](const RunRequest& run) {
    return run.strategy == "topk" ? launch::kRunFailed : launch::kOk;
  };
  ComparisonRunner all = runner({"dense", "topk", "qsgd"});
  EXPECT_EQ(run(all), launch::kRunFailed);
  EXPECT_EQ(finished_, (Strings{"dense", "qsgd"}));
  EXPECT_FALSE(all.comparison().runs[1].problem.empty());
}

TEST_F(RunsOfComparison, EndAtAnInterrupt) {
  ending_ = [](const RunRequest& run) {
    return run.strategy == "topk" ? launch::kInterrupted : launch::kOk;
  };
  ComparisonRunner all = runner({"dense", "topk", "qsgd"});
  EXPECT_EQ(run(all), launch::kInterrupted);
  EXPECT_EQ(trained_, (Strings{"dense", "topk"}));
}

TEST_F(RunsOfComparison, StartAgainIfTheirCheckpointIsRefused) {
  resumable_ = "topk";
  ending_ = [](const RunRequest& run) { return run.resume ? launch::kBadUsage : launch::kOk; };
  ComparisonRunner all = runner({"dense", "topk"});
  EXPECT_EQ(run(all), launch::kOk);
  EXPECT_EQ(trained_, (Strings{"dense", "topk resumed", "topk"}));
}

}  // namespace
}  // namespace thinwire::report
