// What `bench select` prints: a table for people, a JSON line per kernel for scripts.
#pragma once

#include "cli/io.h"
#include "cli/select_bench.h"

namespace thinwire::cli {

class SelectReport {
 public:
  SelectReport(Io& io, const SelectPlan& plan, bool json) : io_(io), plan_(plan), json_(json) {}

  void add(const SelectResult& result);

 private:
  void print_heading();
  void print_row(const SelectResult& result);
  void print_json(const SelectResult& result);

  Io& io_;
  const SelectPlan& plan_;
  bool json_;
  bool started_ = false;
};

}  // namespace thinwire::cli
