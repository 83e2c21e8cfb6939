// The counters of a rank over a run, which are part of its checkpoints.
#pragma once

#include <cstdint>

#include "trainer/train.h"

namespace thinwire::trainer {

struct Counters {
  double time = 0;  // of a resumed run: seconds of training before this process
  double compute = 0, codec = 0, wire = 0, wait = 0;
  std::uint64_t bytes_sent = 0, skipped = 0;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;  // of all workers; in an asynchronous run, of this one
};

// Computes the times, bytes, steps and samples of a run from the counters of all ranks. Called by
// all ranks together. `aside` is the time in which this rank's training thread neither computed nor
// exchanged.
void sum_counters(Transport& wire, const Counters& mine, Seconds aside, SyncMode sync_mode,
                  TrainResult& result);

}  // namespace thinwire::trainer
