// The counters of a rank over a run, which are part of its checkpoints.
#pragma once

#include <cstdint>

#include "trainer/train.h"

namespace thinwire::trainer {

struct Counters {
  double time = 0;  // seconds of training before this process, of resumed runs
  double compute = 0, codec = 0, wire = 0, wait = 0;
  std::uint64_t bytes_sent = 0, skipped = 0;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;  // of all workers; asynchronously, of this one
};

// Fills the times, bytes, steps and samples of a run from those of all ranks, which call it
// together. `aside` is the time that this rank's training thread spent on neither computing nor
// exchanging.
void sum_counters(Transport& wire, const Counters& mine, Seconds aside, SyncMode sync_mode,
                  TrainResult& result);

}  // namespace thinwire::trainer
