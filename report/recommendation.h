// The conclusions of a comparison in plain sentences, computed from its measurements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/comparison.h"

namespace thinwire::report {

// A run is as accurate as the baseline if it is not further below: half a percentage point. Seeds
// alone make that much of a difference on small test sets.
inline constexpr double kSameAccuracy = 0.005;
// Times closer than this are the same: machines are not steadier.
inline constexpr double kSameTime = 0.05;

// All runs compute the same. If a step of one run takes this many times as long as that of another,
// the times depend more on the machine than on the strategies.
inline constexpr double kUnsteadyComputing = 3;

// A model has learned if it went at least this share of the way from guessing to knowing.
inline constexpr double kLearned = 0.05;
// If no strategy is sooner, one that sends this many times fewer bytes is mentioned.
inline constexpr double kFarFewerBytes = 2;

// The strategy that all others are measured against.
inline constexpr std::string_view kBaseline = "dense";

// How one run compares with the baseline.
struct RunComparison {
  bool as_accurate = false;
  // Training time and bytes per worker until the target was reached for the first time; between
  // two tests on the straight line through them. None if it was not.
  std::optional<double> seconds_to_target, bytes_to_target;
  bool at_first_test = false;  // the target had been reached before: both are upper bounds
  // Ratios of the baseline's time and bytes until then to those of this run; more than 1 is sooner,
  // or fewer. None if the baseline's own are bounds; lower bounds if those of this run are bounds.
  std::optional<double> sooner, fewer_bytes_to_target;
  std::optional<double> fewer_bytes;  // the same, over the whole run
};

struct Recommendation {
  std::string headline;
  std::vector<std::string> sentences;  // one per run
  std::vector<std::string> caveats;
  // The accuracy to reach: the baseline's, less what counts as the same, in whole percents. None
  // if the baseline has not finished, or not learned.
  std::optional<double> target;
  std::vector<RunComparison> comparisons;  // one per run
  std::optional<std::size_t> winner;       // clearly sooner than the baseline, and as accurate
};

Recommendation recommend(const Comparison& comparison);

}  // namespace thinwire::report
