// QSGD-MaxNorm (Vineeth S 2021): every gradient is rounded, at random and right on average, to a
// lattice that all workers share, so that the codes add up inside an all-reduce. Nothing is held
// back. Small tensors, which are sensitive and cost little, go as they are.
#include "base/spec.h"
#include "kernel/quantize.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/small_tensors.h"
#include "strategy/quantized/quantized_mean.h"

namespace thinwire::strategy {
namespace {

class Qsgd final : public GradientStrategy {
 public:
  explicit Qsgd(base::Spec& spec) : mean_(Quantization::read(spec, "4096")) {}

  void begin(const StrategyContext& context) override {
    small_.find(context.layout, is_tiny);
    mean_.begin(context.layout.numel, context.workers(), small_.numel());
  }

  Update exchange(const GradientStep& step) override {
    std::uint32_t outside = 0;
    timed_codec(step, [&] {
      small_.take(step, {}, 0);
      outside = kernel::highest_magnitude(small_.gradients());
    });
    if (!mean_.agree(step, step.grads, outside)) return Update::skipped();
    mean_.exchange(step, step.grads, step.grads, QuantizedMean::Rounding::dithered);
    const bool finite = small_.exchange(step.wire);
    timed_codec(step, [&] { small_.put(step.grads, {}); });
    return Update::dense(finite);
  }

  CostProfile cost_profile() const override { return {.blocks = mean_.blocks()}; }
  std::vector<Metric> metrics() const override { return mean_.metrics(); }

 private:
  QuantizedMean mean_;
  SmallTensors small_;
};

}  // namespace

std::unique_ptr<Strategy> make_qsgd(base::Spec& spec) { return std::make_unique<Qsgd>(spec); }

}  // namespace thinwire::strategy
