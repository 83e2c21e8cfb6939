// Statistics of a run: plain numbers that one thread writes.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/export.h"
#include "thinwire/types.h"

namespace thinwire {

// The median, smallest and largest value of repeated measurements.
struct Summary {
  double median = 0;
  double min = 0;
  double max = 0;
};
// Returns zeros if there are no samples. May be called from any thread; does not throw.
TW_EXPORT Summary summarize(std::vector<double> samples);

// Counters and times of a strategy on one rank so far. Strategies add to codec and wait; the
// Session, which calls them, does the rest. Bytes are in Transport::traffic().
struct Stats {
  std::uint64_t steps = 0;
  std::uint64_t skipped_steps = 0;  // steps in which a gradient was not finite
  double residual_ratio = 0;        // L2 norm of the residual divided by that of the gradient
  double consensus_distance = 0;    // of the models from their mean, before end() made them equal
  Seconds codec{0};                 // encoding and decoding of what is sent
  Seconds wire{0};                  // exchanging messages
  Seconds wait{0};                  // waiting for a late peer, if the strategy can measure it
};

// Adds the time between construction and destruction, read from `clock()`, to one field, which must
// outlive it. Used by one thread.
template <class Clock>
class PhaseTimer {
 public:
  // Reads the clock. Throws what it throws.
  PhaseTimer(Clock clock, Seconds& field) : clock_(clock), field_(field), start_(clock()) {}
  // Reads the clock, which must not throw now, and adds the difference. Called by the thread that
  // made the timer.
  ~PhaseTimer() { field_ += clock_() - start_; }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  Clock clock_;
  Seconds& field_;
  Seconds start_;
};

}  // namespace thinwire
