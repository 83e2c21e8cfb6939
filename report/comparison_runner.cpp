#include "report/comparison_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "report/page.h"
#include "report/recommendation.h"
#include "report/table.h"

namespace thinwire::report {

ComparisonRunner::ComparisonRunner(Comparison comparison, ComparisonStore store,
                                   RunFunctions functions)
    : comparison_(std::move(comparison)),
      store_(std::move(store)),
      functions_(std::move(functions)) {
  for (ComparedRun& finished : store_.finished_runs()) {
    const auto asked =
        std::ranges::find(comparison_.runs, finished.strategy, &ComparedRun::strategy);
    if (asked != comparison_.runs.end()) {
      *asked = std::move(finished);
    } else {
      comparison_.runs.push_back(std::move(finished));
    }
  }
}

int ComparisonRunner::run(launch::Io& io,
                          const std::function<void(const ComparedRun&)>& on_finished) {
  CompareProgress progress(io, comparison_);
  bool failed = false;
  for (std::size_t i = 0; i < comparison_.runs.size(); ++i) {
    ComparedRun& run = comparison_.runs[i];
    if (!run.finished()) {
      progress.begin(i);
      const Outcome outcome = train(run.strategy, io, progress);
      if (outcome.exit_code == launch::kInterrupted) {
        write_results();
        return launch::kInterrupted;
      }
      take_result(run, outcome);
      progress.end();
    }
    failed = failed || !run.finished();
    if (run.finished()) on_finished(run);
    write_results();
  }
  return failed ? launch::kRunFailed : launch::kOk;
}

// A run that failed has no result, however far it came.
void ComparisonRunner::take_result(ComparedRun& run, const Outcome& outcome) {
  if (outcome.exit_code != launch::kOk) store_.set_aside(run.strategy);
  if (auto finished = store_.finished_run(run.strategy)) {
    run = std::move(*finished);
  } else {
    run.problem = outcome.problem;
  }
}

// Trains it, from its last checkpoint if there is one that is whole.
ComparisonRunner::Outcome ComparisonRunner::train(const std::string& strategy, launch::Io& io,
                                                  CompareProgress& progress) {
  using Attempt = ComparisonStore::Attempt;
  store_.set_aside(strategy);  // a summary that is there, but is none of a finished run
  if (functions_.can_resume(strategy, store_.run_directory(strategy))) {
    Outcome outcome = attempt(strategy, Attempt::resumed, io, progress);
    if (outcome.exit_code != launch::kBadUsage) return outcome;
    progress.message(fmt::format("{}{}: it starts again from step 0; no checkpoint of it is whole",
                                 launch::kErrorPrefix, strategy));
  }
  return attempt(strategy, Attempt::from_start, io, progress);
}

ComparisonRunner::Outcome ComparisonRunner::attempt(const std::string& strategy,
                                                    ComparisonStore::Attempt kind, launch::Io& io,
                                                    CompareProgress& progress) {
  store_.begin_run(strategy, kind);
  const std::filesystem::path directory = store_.run_directory(strategy);
  const RunRequest request{strategy, directory, directory / "events.jsonl",
                           kind == ComparisonStore::Attempt::resumed};
  std::filesystem::remove(request.events);  // an earlier attempt may have written some
  RunWatcher watcher(progress, request.events);
  launch::Io own{io.out, watcher.stream(), io.env, progress.in_place()};
  const int code = functions_.train(request, own);
  watcher.read_events();
  store_.add_warnings(strategy, watcher.warnings());
  if (code == launch::kOk) return {code, "its summary.json is not that of a finished run"};
  if (code != launch::kInterrupted) {
    for (const std::string& line : watcher.last_lines()) progress.message(line);
  }
  return {code, watcher.problem(code)};
}

void ComparisonRunner::write_results() const {
  const Recommendation recommendation = recommend(comparison_);
  store_.write("compare.csv", comparison_csv(comparison_, recommendation));
  store_.write("report.html", report_page(comparison_, recommendation));
}

}  // namespace thinwire::report
