// Local SGD: every worker trains alone for `period` steps, then all models become their mean
// (Stich, "Local SGD converges fast and communicates little", ICLR 2019). Momentum stays local.
#include <fmt/format.h>

#include "base/spec.h"
#include "strategy/common/consensus.h"
#include "strategy/common/gradient_guard.h"
#include "strategy/common/state.h"
#include "thinwire/collective.h"

namespace thinwire::strategy {
namespace {

constexpr std::uint32_t kStateVersion = 2;

class LocalSgd final : public ModelStrategy {
 public:
  explicit LocalSgd(std::uint64_t period) : period_(period) {}

  SyncMode sync_mode() const override { return SyncMode::periodic; }
  void begin(const StrategyContext&, Floats, std::uint64_t) override {}
  std::uint64_t dense_steps(const RunOptions& run) const override { return synchronous_steps(run); }

  void before_step(const GradientStep& step) override { guard_.limit(step, 1); }

  void after_step(const ModelStep& step) override {
    const bool due = (step.step + 1) % period_ == 0 && step.step >= synchronous_steps(step.run);
    if (!due || allreduce_mean(step.wire, step.params)) return;
    throw diverged(fmt::format("the mean of all models is not finite (step {})", step.step));
  }

  void end(const StrategyContext& context, MutFloats params) override {
    agree_on_mean(context, params);
  }

  std::vector<Metric> metrics() const override {
    std::vector<Metric> out;
    guard_.report(out);
    return out;
  }

  void save(Payload& out) const override {
    base::ByteWriter writer(out);
    writer.put(kStateVersion);
    guard_.save(writer);
  }
  void load(Bytes in) override {
    base::ByteReader reader(in, "the state of localsgd");
    expect_version(reader, kStateVersion, "localsgd");
    guard_.load(reader);
    reader.expect_end();
  }

 private:
  std::uint64_t period_;
  GradientGuard guard_;
};

}  // namespace

std::unique_ptr<Strategy> make_localsgd(base::Spec& spec) {
  return std::make_unique<LocalSgd>(
      static_cast<std::uint64_t>(spec.integer("period", 8, 1, 1'000'000)));
}

}  // namespace thinwire::strategy
