// Synchronous SGD: every gradient becomes the mean over all workers.
#include <bit>

#include "thinwire/collective.h"
#include "thinwire/strategy.h"

namespace thinwire {
namespace {

// Divides by the number of workers. False if a result is not finite. Divided rather than multiplied
// by 1/P, so that the mean is the correctly rounded one.
bool divide(MutFloats gradients, float workers) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t highest = 0;
  for (float& gradient : gradients) {
    gradient /= workers;
    highest = std::max(highest, std::bit_cast<std::uint32_t>(gradient) & kExponent);
  }
  return highest != kExponent;
}

class Dense final : public Strategy {
 public:
  void after_backward(StepContext& context) override {
    Transport& wire = context.wire;
    const auto clock = [&wire] { return wire.now(); };
    {
      const PhaseTimer timer(clock, context.stats.wire);
      allreduce_sum(wire, context.model.grads);
    }
    const PhaseTimer timer(clock, context.stats.codec);
    // A gradient that is not finite makes the sum so, on every rank: they agree without a word.
    context.skip = !divide(context.model.grads, static_cast<float>(wire.size()));
  }
};

}  // namespace

std::unique_ptr<Strategy> make_dense(Spec& spec) {
  static constexpr std::string_view kTypes[] = {"fp32"};
  spec.choice("dtype", kTypes);
  return std::make_unique<Dense>();
}

}  // namespace thinwire
