// What `bench select` prints: a table for people, a JSON line per kernel for scripts.
#pragma once

#include "bench/measure/select_bench.h"
#include "launch/console.h"

namespace thinwire::cli {

class SelectReport {
 public:
  SelectReport(launch::Io& io, const measure::SelectBenchOptions& plan, bool json)
      : io_(io), plan_(plan), json_(json) {}

  void add(const measure::SelectResult& result);

 private:
  void print_heading();
  void print_row(const measure::SelectResult& result);
  void print_json(const measure::SelectResult& result);

  launch::Io& io_;
  const measure::SelectBenchOptions& plan_;
  bool json_;
  bool started_ = false;
};

}  // namespace thinwire::cli
