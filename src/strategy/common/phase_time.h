// Accounts for the time that a strategy computes. The Session counts the rest of an exchange as the
// wire's.
#pragma once

#include <ctime>

#include "thinwire/strategy.h"

namespace thinwire::strategy {

// What the calling thread has computed so far. Simulated workers share one machine, and whatever
// else runs on it: the clock on the wall would charge them for others.
inline Seconds thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return Seconds(static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
}

// Runs `work` and adds its time to stats.codec. In simulated time it is free, or measured, or
// charged as measured, as the run says.
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
  if (!context.run.charge_codec && !context.run.measure_codec) return;
  const Seconds took = thread_time() - start;
  context.stats.codec += took;
  if (context.run.charge_codec) wire.sleep(took);
}

}  // namespace thinwire::strategy
