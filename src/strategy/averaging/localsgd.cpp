// Local SGD: every worker trains alone for `period` steps, then all models become their mean
// (Stich, "Local SGD converges fast and communicates little", ICLR 2019). Momentum stays local.
#include <fmt/format.h>

#include "base/spec.h"
#include "kernel/finite.h"
#include "strategy/common/consensus.h"
#include "strategy/common/phase_time.h"
#include "thinwire/collective.h"

namespace thinwire::strategy {
namespace {

class LocalSgd final : public Strategy {
 public:
  explicit LocalSgd(std::uint64_t period) : period_(period) {}

  // To tell the others would cost an exchange in every step.
  void after_backward(StepContext& context) override {
    timed_codec(context, [&] { context.skip = !kernel::all_finite(context.model.grads); });
  }

  void after_step(StepContext& context) override {
    if (context.wire.size() == 1 || (context.step + 1) % period_ != 0) return;
    bool finite = true;
    timed_wire(context, [&] { finite = allreduce_mean(context.wire, context.model.params); });
    if (finite) return;
    throw Error(fmt::format(
        "the mean of all models after step {} is not finite; a smaller learning rate may help",
        context.step));
  }

  void end(StepContext& context) override { agree_on_mean(context); }

  SyncMode sync_mode() const override { return SyncMode::periodic; }

 private:
  std::uint64_t period_;
};

}  // namespace

std::unique_ptr<Strategy> make_localsgd(base::Spec& spec) {
  return std::make_unique<LocalSgd>(
      static_cast<std::uint64_t>(spec.integer("period", 8, 1, 1'000'000)));
}

}  // namespace thinwire::strategy
