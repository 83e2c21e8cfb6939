// What `bench allreduce` prints: a table for people, a JSON line per size for scripts.
#pragma once

#include <string>

#include "bench/measure/allreduce_bench.h"
#include "launch/console.h"

namespace thinwire::cli {

class AllreduceReport {
 public:
  AllreduceReport(launch::Io& io, const measure::AllreduceBenchOptions& plan, std::string transport,
                  bool json);

  void add(const measure::AllreduceResult& result);

 private:
  void print_heading(int workers);
  void print_row(const measure::AllreduceResult& result);
  void print_codec(const measure::AllreduceResult& result);
  void print_json(const measure::AllreduceResult& result);

  launch::Io& io_;
  const measure::AllreduceBenchOptions& plan_;
  std::string transport_;
  bool json_;
  bool started_ = false;
};

}  // namespace thinwire::cli
