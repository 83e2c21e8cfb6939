// The results of the all-reduce benchmark as text: a table for people, JSON for scripts.
#pragma once

#include <string>

#include "bench/measure/allreduce_bench.h"

namespace thinwire::measure {

class AllreduceReport {
 public:
  // `options` outlives the report.
  AllreduceReport(const AllreduceBenchOptions& options, std::string transport, int workers);

  // Return one line each, without its end: what was measured, the names of the columns.
  std::string title() const;
  std::string columns() const;
  // Returns the line of one size. If the strategy computes, a second line says how long.
  std::string row(const AllreduceResult& result) const;
  // Returns one JSON object.
  std::string json(const AllreduceResult& result) const;

 private:
  const AllreduceBenchOptions& options_;
  std::string transport_;
  int workers_;
};

}  // namespace thinwire::measure
