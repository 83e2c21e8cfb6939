// Accounts for the time of a collective in the statistics of a step.
#pragma once

#include "collective/phase_timing.h"
#include "strategy/common/phase_time.h"

namespace thinwire::strategy {

// The context must outlive this.
class StepTiming final : public collective::PhaseTiming {
 public:
  explicit StepTiming(const StrategyContext& context) : context_(context) {}

  void compute(collective::Work work) override { timed_codec(context_, work); }

 private:
  const StrategyContext& context_;
};

}  // namespace thinwire::strategy
