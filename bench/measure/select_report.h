// The results of the selection benchmark as text: a table for people, JSON for scripts.
#pragma once

#include <string>

#include "bench/measure/select_bench.h"

namespace thinwire::measure {

class SelectReport {
 public:
  // `options` outlives the report.
  explicit SelectReport(const SelectBenchOptions& options) : options_(options) {}

  // Return one line each, without its end: what was measured, the names of the columns, and the
  // line of one kernel.
  std::string title() const;
  std::string columns() const;
  std::string row(const SelectResult& result) const;
  // Returns one JSON object.
  std::string json(const SelectResult& result) const;

 private:
  const SelectBenchOptions& options_;
};

}  // namespace thinwire::measure
