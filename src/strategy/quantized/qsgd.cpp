// QSGD-MaxNorm (Vineeth S 2021): every gradient is rounded, at random and right on average, to a
// lattice that all workers share, so that the codes add up inside an all-reduce. Nothing is held
// back. Small tensors, which are sensitive and cost little, go as they are.
#include "base/spec.h"
#include "kernel/finite.h"
#include "kernel/quantize.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/small_tensors.h"
#include "strategy/quantized/quantized_mean.h"

namespace thinwire::strategy {
namespace {

class Qsgd final : public Strategy {
 public:
  explicit Qsgd(base::Spec& spec) : mean_(Quantization::read(spec, "4096")) {}

  void begin(StepContext& context) override {
    if (context.wire.size() == 1) return;
    small_.find(context.model.layout, is_tiny);
    mean_.begin(context.model.layout.numel, context.wire.size(), small_.numel());
  }

  void after_backward(StepContext& context) override {
    const ModelView& model = context.model;
    if (context.wire.size() == 1) {
      context.skip = !kernel::all_finite(model.grads);
      return;
    }
    std::uint32_t outside = 0;
    timed_codec(context, [&] {
      small_.take(model, {}, 0);
      outside = kernel::highest_magnitude(small_.gradients());
    });
    context.skip = !mean_.agree(context, model.grads, outside);
    if (context.skip) return;
    mean_.exchange(context, model.grads, model.grads, QuantizedMean::Rounding::dithered);
    timed_wire(context, [&] { context.skip = !small_.exchange(context.wire); });
    timed_codec(context, [&] { small_.put(model, {}); });
  }

  std::vector<Metric> metrics() const override { return mean_.metrics(); }

 private:
  QuantizedMean mean_;
  SmallTensors small_;
};

}  // namespace

std::unique_ptr<Strategy> make_qsgd(base::Spec& spec) { return std::make_unique<Qsgd>(spec); }

}  // namespace thinwire::strategy
