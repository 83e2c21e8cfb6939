// Measures a codec on synthetic gradients, step after step as in training: what it holds back meets
// the next gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "thinwire/stats.h"

namespace thinwire::cli {

struct CodecPlan {
  std::vector<std::string> codecs;  // specs
  std::size_t numel = 25'000'000;
  int reps = 11;
  int warmup = 3;
  std::uint64_t seed = 1;
};

struct CodecResult {
  std::string codec;
  std::size_t bytes = 0;        // the longest message
  std::size_t coordinates = 0;  // elements that were sent in it
  // What one of them needs at least: its value, and its share of log2 of the number of ways to
  // choose that many.
  double entropy_bytes_per_coordinate = 0;
  Summary encode_seconds;
  Summary decode_seconds;
  Summary add_seconds;    // of r += g on the same memory, in turns: what memory allows
  bool conserved = true;  // what was sent and what stayed is what was there

  double bytes_per_coordinate() const {
    return static_cast<double>(bytes) / static_cast<double>(coordinates);
  }
};

// Floats per element that a measurement holds, the codec's own included.
inline constexpr std::size_t kCodecBuffers = 6;

using RepBegins = std::function<void(int rep)>;  // warm-up included, from 0

CodecResult measure_codec(const CodecPlan& plan, const std::string& codec,
                          const RepBegins& rep_begins);

}  // namespace thinwire::cli
