// Synchronous SGD: every gradient becomes the mean over all workers. On the wire it is a float, or
// a 16-bit float, which is rounded at every hop of the all-reduce.
#include "base/spec.h"
#include "kernel/finite.h"
#include "kernel/half.h"
#include "strategy/common/phase_time.h"
#include "thinwire/collective.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {
namespace {

class Dense final : public Strategy {
 public:
  void after_backward(StepContext& context) override {
    Transport& wire = context.wire;
    const PhaseTimer timer([&wire] { return wire.now(); }, context.stats.wire);
    // A gradient that is not finite makes the mean so, on every rank: they agree without a word.
    context.skip = !allreduce_mean(wire, context.model.grads);
  }
};

template <class Half>
class DenseHalf final : public Strategy {
 public:
  void after_backward(StepContext& context) override {
    Transport& wire = context.wire;
    const MutFloats gradients = context.model.grads;
    const bool alone = wire.size() == 1;
    if (!alone) {
      coded_.resize(gradients.size());
      // Divided before it is sent, so that the sum does not leave the narrow range of fp16.
      timed_codec(context,
                  [&] { kernel::encode(gradients, 1 / static_cast<float>(wire.size()), coded_); });
      const PhaseTimer timer([&wire] { return wire.now(); }, context.stats.wire);
      allreduce_sum(wire, std::span(coded_));
    }
    timed_codec(context, [&] {
      if (!alone) kernel::decode(std::span<const Half>(coded_), gradients);
      context.skip = !kernel::all_finite(gradients);
    });
  }

 private:
  std::vector<Half> coded_;
};

}  // namespace

std::unique_ptr<Strategy> make_dense(base::Spec& spec) {
  static constexpr std::string_view kTypes[] = {"fp32", "bf16", "fp16"};
  const std::string type = spec.choice("dtype", kTypes);
  if (type == "bf16") return std::make_unique<DenseHalf<Bf16>>();
  if (type == "fp16") return std::make_unique<DenseHalf<Fp16>>();
  return std::make_unique<Dense>();
}

}  // namespace thinwire::strategy
