// QSGD-MaxNorm (Vineeth S 2021): every gradient is rounded, at random and right on average, to a
// lattice that all workers share, so that the codes add up inside an all-reduce. There is no
// residual. Small tensors, which are sensitive and take few bytes, are sent in full precision.
#include "base/spec.h"
#include "collective/quantized_allreduce.h"
#include "kernel/quantize.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/small_tensors.h"
#include "strategy/quantized/quantization_keys.h"
#include "strategy/quantized/step_timing.h"

namespace thinwire::strategy {
namespace {

class Qsgd final : public GradientStrategy {
 public:
  explicit Qsgd(base::Spec& spec) : allreduce_(read_quantization(spec, "4096")) {}

  void begin(const StrategyContext& context) override {
    small_.find(context.layout, is_tiny);
    allreduce_.begin(context.layout.numel, context.workers(), small_.numel());
  }

  Update exchange(const GradientStep& step) override {
    std::uint32_t outside = 0;
    timed_codec(step, [&] {
      small_.take(step, {}, 0);
      outside = kernel::highest_magnitude(small_.gradients());
    });
    StepTiming timing(step);
    if (!allreduce_.agree(step.wire, timing, step.grads, outside)) return Update::skipped();
    allreduce_.exchange(
        step.wire, timing,
        {step.grads, step.grads, collective::Rounding::dithered, step.run.seed, step.step});
    const bool finite = small_.exchange(step.wire);
    timed_codec(step, [&] { small_.put(step.grads, {}); });
    return Update::dense(finite);
  }

  CostProfile cost_profile() const override {
    return {.blocks = allreduce_.counts().two_hop_tiles};
  }
  std::vector<Metric> metrics() const override { return quantized_metrics(allreduce_); }

 private:
  collective::QuantizedAllreduce allreduce_;
  SmallTensors small_;
};

}  // namespace

std::unique_ptr<Strategy> make_qsgd(base::Spec& spec) { return std::make_unique<Qsgd>(spec); }

}  // namespace thinwire::strategy
