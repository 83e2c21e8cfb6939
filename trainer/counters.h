// What a rank carries through a run besides the model; part of its checkpoints.
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

// The times, bytes, steps and samples of a run from those of each rank, which call it together.
// `aside` is what this rank's training thread did besides computing and exchanging.
void sum_counters(Transport& wire, const Counters& mine, Seconds aside, SyncMode sync_mode,
                  TrainResult& result);

}  // namespace thinwire::trainer
