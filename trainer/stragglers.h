// Which workers the others had to wait for, from the times that each of them took over a run.
#pragma once

#include <span>
#include <vector>

#include "thinwire/types.h"
#include "trainer/train.h"

namespace thinwire::trainer {

// Of one worker, in rank order.
struct WorkerTimes {
  Seconds busy{0};  // between exchanges: computing, waiting for input, writing the log
  Seconds wire{0};  // in exchanges, waiting for late peers included
};

// The workers for which the others waited more than kWorthNaming of `total`, longest first. A
// worker is late by what it was busy longer; others waited for it as far as that shows in their
// exchanges, so that nobody is blamed where workers do not wait for each other.
inline constexpr double kWorthNaming = 0.1;
std::vector<LateWorker> late_workers(std::span<const WorkerTimes> workers, Seconds total);

}  // namespace thinwire::trainer
