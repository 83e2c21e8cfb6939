// Synchronous SGD: every gradient becomes the mean over all workers.
#include "thinwire/collective.h"
#include "thinwire/strategy.h"

namespace thinwire {
namespace {

class Dense final : public Strategy {
 public:
  void after_backward(StepContext& context) override {
    Transport& wire = context.wire;
    const auto clock = [&wire] { return wire.now(); };
    {
      const PhaseTimer timer(clock, context.stats.wire);
      allreduce_sum(wire, context.model.grads);
    }
    if (wire.size() == 1) return;
    const PhaseTimer timer(clock, context.stats.codec);
    const auto workers = static_cast<float>(wire.size());
    // Divided rather than multiplied by 1/P, so that the mean is the correctly rounded one.
    for (float& gradient : context.model.grads) gradient /= workers;
  }
};

}  // namespace

std::unique_ptr<Strategy> make_dense(Spec& spec) {
  static constexpr std::string_view kTypes[] = {"fp32"};
  spec.choice("dtype", kTypes);
  return std::make_unique<Dense>();
}

}  // namespace thinwire
