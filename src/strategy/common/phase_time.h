// Measures the codec time of a strategy. The Session counts the rest of an exchange as the time of
// the wire.
#pragma once

#include <ctime>

#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Returns the CPU time of the calling thread. Simulated workers share one machine with each other
// and with other programs, so that the wall clock would also count the time of those.
inline Seconds thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return Seconds(static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
}

// Runs `work` and adds its time to stats.codec. On `sim`, work takes no time unless the run options
// say that it is measured, or measured and charged to the simulated clock.
template <class Work>
void timed_codec(const StrategyContext& context, Work work) {
  Transport& wire = context.wire;
  if (!wire.runtime().simulated()) {
    const PhaseTimer timer([&wire] { return wire.now(); }, context.stats.codec);
    work();
    return;
  }
  const Seconds start = thread_time();
  work();
  if (context.run.codec_time == CodecTime::ignored) return;
  const Seconds took = thread_time() - start;
  context.stats.codec += took;
  if (context.run.codec_time == CodecTime::charged) wire.sleep(took);
}

}  // namespace thinwire::strategy
