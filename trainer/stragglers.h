// Finds the workers that the others had to wait for, from the times of each of them over a run.
#pragma once

#include <span>
#include <vector>

#include "thinwire/types.h"
#include "trainer/train.h"

namespace thinwire::trainer {

// The times of one worker.
struct WorkerTimes {
  Seconds busy{0};  // between exchanges: computing, waiting for input, writing the log
  Seconds wire{0};  // in exchanges, waiting for late peers included
};

// Returns the workers for which the others waited more than kWorthNaming of `total`, longest first.
// `workers` is in rank order. A worker is late by the time that it was busy longer than the others;
// the others waited for it as far as that shows in their exchanges, so that no worker is blamed
// where workers do not wait for each other.
inline constexpr double kWorthNaming = 0.1;
std::vector<LateWorker> late_workers(std::span<const WorkerTimes> workers, Seconds total);

}  // namespace thinwire::trainer
