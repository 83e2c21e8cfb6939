// Measures the selection of the largest entries, step after step as in training.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>

#include "thinwire/stats.h"

namespace thinwire::measure {

struct SelectBenchOptions {
  std::size_t numel = 25'000'000;
  double density = 0.001;
  int reps = 11;
  int warmup = 10;  // the residual grows at first, and the kernel learns its threshold
  std::uint64_t seed = 1;

  std::size_t k() const {
    return std::max<std::size_t>(1, static_cast<std::size_t>(density * static_cast<double>(numel)));
  }
};

enum class SelectKernel {
  plain,        // TopK: r += g, and the selection
  momentum,     // TopK with momentum correction
  nth_element,  // r += g, then std::nth_element on a copy of all magnitudes
};
std::string_view name_of(SelectKernel kernel);

struct SelectResult {
  SelectKernel kernel = SelectKernel::plain;
  int reps = 0;
  Summary seconds;
  Summary add_seconds;         // of r += g on the same memory, in turns
  int bytes_per_element = 0;   // read and written by all passes of the kernel; r += g: 12
  std::size_t candidates = 0;  // that passed the filter in the last step; 0 where there is none
  int rescans = 0;             // in all steps that count
  bool exact = true;           // the right entries were selected, and no other changed
};

// Floats per element that a measurement holds.
inline constexpr std::size_t kSelectBuffers = 6;

using StepStarted = std::function<void(int step)>;  // warm-up included, from 0

SelectResult measure_select(const SelectBenchOptions& options, SelectKernel kernel,
                            const StepStarted& step_started);

}  // namespace thinwire::measure
