// Trains the strategies of a comparison that have no result yet, one after the other. Results are
// kept in the directory of the comparison, so that an interrupted one goes on where it was.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "launch/console.h"
#include "report/compare_progress.h"
#include "report/comparison_store.h"

namespace thinwire::report {

// One attempt to train a strategy.
struct RunRequest {
  std::string strategy;
  std::filesystem::path directory;  // for checkpoints, log and summary
  std::filesystem::path events;     // the file of its event stream
  bool resume = false;              // from its last checkpoint
};

// How the caller trains. Both functions are called from the thread that calls run().
struct RunFunctions {
  // Trains in processes of its own, so that a run that crashes does not end the others. Its stderr
  // goes to io.err. Returns the exit code.
  std::function<int(const RunRequest&, launch::Io& io)> train;
  // Returns whether the directory has a checkpoint of the strategy that is whole on every rank.
  std::function<bool(const std::string& strategy, const std::filesystem::path& directory)>
      can_resume;
};

class ComparisonRunner {
 public:
  // Takes the finished runs of earlier calls from the store; also those of strategies that are not
  // asked for now, because they belong to the same comparison.
  ComparisonRunner(Comparison comparison, ComparisonStore store, RunFunctions functions);

  // Trains what has no result, shows the progress on io.err, and writes table and page after each
  // run. `on_finished` is called with each finished run, in order. Returns kOk, kRunFailed if a run
  // failed, or kInterrupted.
  int run(launch::Io& io, const std::function<void(const ComparedRun&)>& on_finished);

  const Comparison& comparison() const noexcept { return comparison_; }
  std::filesystem::path directory() const { return store_.directory(); }
  std::filesystem::path page() const { return store_.directory() / "report.html"; }

 private:
  struct Outcome {
    int exit_code = launch::kOk;
    std::string problem;  // if it failed
  };

  Outcome train(const std::string& strategy, launch::Io& io, CompareProgress& progress);
  Outcome attempt(const std::string& strategy, ComparisonStore::Attempt kind, launch::Io& io,
                  CompareProgress& progress);
  void take_result(ComparedRun& run, const Outcome& outcome);
  void write_results() const;

  Comparison comparison_;
  ComparisonStore store_;
  RunFunctions functions_;
};

}  // namespace thinwire::report
