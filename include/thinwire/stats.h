// What a run cost: plain numbers with one writer.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/export.h"
#include "thinwire/types.h"

namespace thinwire {

// Median, smallest and largest of repeated measurements.
struct Summary {
  double median = 0;
  double min = 0;
  double max = 0;
};
TW_EXPORT Summary summarize(std::vector<double> samples);

// What a strategy spent so far on one rank. Strategies add to the phases; whoever calls the hooks
// counts the steps; bytes are in Transport::traffic().
struct Stats {
  std::uint64_t steps = 0;
  std::uint64_t skipped_steps = 0;  // because of gradients that were not finite
  double residual_ratio = 0;        // of what is held back to the gradient, in L2 norms
  double consensus_distance = 0;    // of the models to their mean before end() made them the same
  Seconds codec{0};                 // turning gradients into what is sent, and back
  Seconds wire{0};                  // exchanging it
  Seconds wait{0};                  // for a peer that was late, where a strategy can tell
};

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
