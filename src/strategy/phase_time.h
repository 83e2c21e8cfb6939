// Accounts for the time of a step: what a strategy computes itself, and what the wire takes.
#pragma once

#include <chrono>

#include "thinwire/strategy.h"

namespace thinwire {

// Runs `work` and adds its time to stats.codec. In simulated time it is free, or charged as
// measured if the run says so.
template <class Work>
void timed_codec(StepContext& context, Work work) {
  Transport& wire = context.wire;
  if (!wire.runtime().simulated()) {
    const PhaseTimer timer([&wire] { return wire.now(); }, context.stats.codec);
    work();
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  work();
  if (!context.run.charge_codec) return;
  const Seconds took = std::chrono::steady_clock::now() - start;
  context.stats.codec += took;
  wire.sleep(took);
}

// Runs a part of an exchange; its time, without that of timed_codec inside, is the wire's.
template <class Part>
void timed_wire(StepContext& context, Part part) {
  Stats& stats = context.stats;
  const Seconds start = context.wire.now(), codec = stats.codec;
  part();
  stats.wire += context.wire.now() - start - (stats.codec - codec);
}

}  // namespace thinwire
