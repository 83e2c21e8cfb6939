// Local SGD: every worker trains alone for `period` steps, then all models become their mean
// (Stich, "Local SGD converges fast and communicates little", ICLR 2019). Momentum stays local.
#include <fmt/format.h>

#include "base/spec.h"
#include "strategy/common/consensus.h"
#include "thinwire/collective.h"

namespace thinwire::strategy {
namespace {

class LocalSgd final : public ModelStrategy {
 public:
  explicit LocalSgd(std::uint64_t period) : period_(period) {}

  SyncMode sync_mode() const override { return SyncMode::periodic; }
  void begin(const StrategyContext&, Floats, std::uint64_t) override {}

  void after_step(const ModelStep& step) override {
    if ((step.step + 1) % period_ != 0 || allreduce_mean(step.wire, step.params)) return;
    throw Error(fmt::format(
        "localsgd: the mean of all models after step {} is not finite; a smaller learning rate may "
        "help",
        step.step));
  }

  void end(const StrategyContext& context, MutFloats params) override {
    agree_on_mean(context, params);
  }

 private:
  std::uint64_t period_;
};

}  // namespace

std::unique_ptr<Strategy> make_localsgd(base::Spec& spec) {
  return std::make_unique<LocalSgd>(
      static_cast<std::uint64_t>(spec.integer("period", 8, 1, 1'000'000)));
}

}  // namespace thinwire::strategy
