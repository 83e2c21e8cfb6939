// What `bench allreduce` prints: a table for people, a JSON line per size for scripts.
#pragma once

#include <string>

#include "cli/allreduce_bench.h"
#include "cli/io.h"

namespace thinwire::cli {

class AllreduceReport {
 public:
  AllreduceReport(Io& io, const AllreducePlan& plan, std::string transport, bool json);

  void add(const AllreduceResult& result);

 private:
  void print_heading(int workers);
  void print_row(const AllreduceResult& result);
  void print_codec(const AllreduceResult& result);
  void print_json(const AllreduceResult& result);

  Io& io_;
  const AllreducePlan& plan_;
  std::string transport_;
  bool json_;
  bool started_ = false;
};

}  // namespace thinwire::cli
