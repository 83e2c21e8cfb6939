// What `bench codec` prints: a table for people, a JSON line per codec for scripts.
#pragma once

#include "cli/codec_bench.h"
#include "cli/io.h"

namespace thinwire::cli {

class CodecReport {
 public:
  CodecReport(Io& io, const CodecPlan& plan, bool json) : io_(io), plan_(plan), json_(json) {}

  void add(const CodecResult& result);

 private:
  void print_heading();
  void print_row(const CodecResult& result);
  void print_json(const CodecResult& result);

  Io& io_;
  const CodecPlan& plan_;
  bool json_;
  bool started_ = false;
};

}  // namespace thinwire::cli
