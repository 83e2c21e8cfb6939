// A comparison as text: a table for people, CSV for programs.
#pragma once

#include <string>

#include "cli/comparison.h"
#include "cli/verdict.h"

namespace thinwire::cli {

// "12.0 s", "<3.0 s" if the first test was late, "never", or `unknown`.
std::string time_to_target(const ComparedRun& run, const Standing& standing, const Verdict& verdict,
                           std::string_view unknown);

class CompareTable {
 public:
  explicit CompareTable(const Comparison& comparison);

  std::string heading(const Verdict& verdict) const;
  // A finished run with its figures; others with `status` in their place.
  std::string row(const ComparedRun& run, const Standing& standing, const Verdict& verdict,
                  std::string_view status) const;

 private:
  std::size_t name_width_ = 0;
};

// One line per finished run below a line of names, quoted as RFC 4180 says.
std::string comparison_csv(const Comparison& comparison, const Verdict& verdict);

}  // namespace thinwire::cli
