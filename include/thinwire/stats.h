// What a run cost: plain numbers with one writer.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/buffer.h"

namespace thinwire {

// Median, smallest and largest of repeated measurements.
struct Summary {
  double median = 0;
  double min = 0;
  double max = 0;
};
Summary summarize(std::vector<double> samples);

// Adds the time between construction and destruction, read from `clock()`, to one field.
template <class Clock>
class PhaseTimer {
 public:
  PhaseTimer(Clock clock, Seconds& field) : clock_(clock), field_(field), start_(clock()) {}
  ~PhaseTimer() { field_ += clock_() - start_; }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  Clock clock_;
  Seconds& field_;
  Seconds start_;
};

}  // namespace thinwire
