// Several strategies on the same task: the measurements of each, read back from the files of their
// runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thinwire::report {

// One test of a model while it learned.
struct TestPoint {
  std::uint64_t step = 0;
  double seconds = 0;  // of training until then
  double bytes = 0;    // sent by a worker until then, on average
  double accuracy = 0;
};

struct ResidualPoint {
  std::uint64_t step = 0;
  double ratio = 0;
};

// The fields are those of `train --json`.
struct ComparedRun {
  std::string strategy;
  std::string summary;  // the JSON object itself; empty if the run did not finish
  std::string problem;  // then: why
  std::uint64_t steps = 0, samples = 0, skipped_steps = 0;
  int workers = 1;
  double accuracy = 0, accuracy_worst_worker = 0;
  std::optional<double> loss;  // none if it is not finite; so with those below
  double seconds = 0, compute = 0, codec = 0, wire = 0, wait = 0;
  double bytes_sent = 0, bytes_per_worker_step = 0, dense_bytes_per_worker_step = 0;
  std::optional<double> residual_ratio, consensus_distance;
  bool replicas_identical = false;
  bool diverged = false;  // the loss is not finite
  std::vector<TestPoint> tests;
  std::vector<ResidualPoint> residuals;  // thinned out; empty if the strategy keeps none
  std::vector<std::string> warnings;     // the first ones, and how many more there were

  bool finished() const noexcept { return !summary.empty(); }
  // Returns whether the workers had different models, so that the tests used their mean.
  bool drifted() const noexcept { return consensus_distance.value_or(0) > 0; }
  // Returns the time that no part of a step accounts for: the optimizer, reading data, the clock.
  double other_seconds() const noexcept;
  double per_step(double seconds_of_run) const noexcept;
};

// The options that all runs share, by name. Runs with the same setting belong together.
using Setting = std::vector<std::pair<std::string, std::string>>;

struct Comparison {
  Setting setting;
  std::string command;  // that makes it again
  std::string title;    // "lenet on digits, 4 workers over gloo at 100mbit,0.2ms"
  bool virtual_time = false;
  bool network_imitated = true;  // else messages passed through the memory of this machine
  bool same_computing = true;    // a step's computing is the same work in all runs, and was timed
  // The accuracy of a model that always gives the most common answer; 0: not known.
  double chance = 0;
  std::vector<ComparedRun> runs;  // in the order asked for
};

// A file next to those that `train` writes, with one line per warning.
inline constexpr std::string_view kWarningsFile = "warnings.txt";

// Returns the finished run of a strategy in a directory. Returns nothing if there is none, if only
// a part of one is there, or if its replicas were not the same at the end, because its metrics
// would mean nothing.
std::optional<ComparedRun> read_run(const std::filesystem::path& directory,
                                    const std::string& strategy);

}  // namespace thinwire::report
