// QSGD-MaxNorm (Vineeth S 2021): every gradient is rounded, at random and right on average, to a
// lattice that all workers share, so that the codes add up inside an all-reduce. There is no
// residual. Small tensors, which are sensitive and take few bytes, are sent in full precision.
#include "base/spec.h"
#include "collective/quantized_allreduce.h"
#include "kernel/finite.h"
#include "kernel/quantize.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/small_tensors.h"
#include "strategy/quantized/quantization_keys.h"
#include "strategy/quantized/step_timing.h"

namespace thinwire::strategy {
namespace {

class Qsgd final : public Strategy {
 public:
  explicit Qsgd(base::Spec& spec) : allreduce_(read_quantization(spec, "4096")) {}

  void begin(StepContext& context) override {
    if (context.wire.size() == 1) return;
    small_.find(context.model.layout, is_tiny);
    allreduce_.begin(context.model.layout.numel, context.wire.size(), small_.numel());
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
    StepTiming timing(context);
    context.skip = !allreduce_.agree(context.wire, timing, model.grads, outside);
    if (context.skip) return;
    allreduce_.exchange(
        context.wire, timing,
        {model.grads, model.grads, collective::Rounding::dithered, context.run.seed, context.step});
    timed_wire(context, [&] { context.skip = !small_.exchange(context.wire); });
    timed_codec(context, [&] { small_.put(model, {}); });
  }

  std::vector<Metric> metrics() const override { return quantized_metrics(allreduce_); }

 private:
  collective::QuantizedAllreduce allreduce_;
  SmallTensors small_;
};

}  // namespace

std::unique_ptr<Strategy> make_qsgd(base::Spec& spec) { return std::make_unique<Qsgd>(spec); }

}  // namespace thinwire::strategy
