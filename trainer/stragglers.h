// Finds the workers for which the others had to wait, from the times of all workers over a run.
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

// Returns the workers for which the others waited more than kWorthNaming of `total`, the latest
// first. `workers` is in rank order. The lateness of a worker is the time by which it was busy
// longer than the others. It counts only as far as the exchanges of the others took longer, so that
// no worker is blamed if workers do not wait for each other.
inline constexpr double kWorthNaming = 0.1;
std::vector<LateWorker> late_workers(std::span<const WorkerTimes> workers, Seconds total);

}  // namespace thinwire::trainer
