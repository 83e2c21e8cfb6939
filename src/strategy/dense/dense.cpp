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

class Dense final : public GradientStrategy {
 public:
  void begin(const StrategyContext&) override {}
  // A gradient that is not finite makes the mean so, on every rank: they agree without a message.
  Update exchange(const GradientStep& step) override {
    return Update::dense(allreduce_mean(step.wire, step.grads));
  }
};

template <class Half>
class DenseHalf final : public GradientStrategy {
 public:
  void begin(const StrategyContext& context) override { coded_.resize(context.layout.numel); }

  Update exchange(const GradientStep& step) override {
    // Divided before it is sent, so that the sum does not leave the narrow range of fp16.
    const float share = 1 / static_cast<float>(step.workers());
    timed_codec(step, [&] { kernel::encode(step.grads, share, coded_); });
    allreduce_sum(step.wire, std::span(coded_));
    bool finite = true;
    timed_codec(step, [&] {
      kernel::decode(std::span<const Half>(coded_), step.grads);
      finite = kernel::all_finite(step.grads);
    });
    return Update::dense(finite);
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
