// A comparison as text: a table for people, CSV for programs.
#pragma once

#include <string>

#include "report/comparison.h"
#include "report/recommendation.h"

namespace thinwire::report {

// "12.0 s", "<3.0 s" if the first test was late, "never", or `unknown`.
std::string time_to_target(const ComparedRun& run, const RunComparison& compared,
                           const Recommendation& recommendation, std::string_view unknown);

class CompareTable {
 public:
  explicit CompareTable(const Comparison& comparison);

  std::string heading(const Recommendation& recommendation) const;
  // A finished run with its metrics; others with `status` in their place.
  std::string row(const ComparedRun& run, const RunComparison& compared,
                  const Recommendation& recommendation, std::string_view status) const;

 private:
  std::size_t name_width_ = 0;
};

// One line per finished run below a line of names, quoted as RFC 4180 says.
std::string comparison_csv(const Comparison& comparison, const Recommendation& recommendation);

}  // namespace thinwire::report
