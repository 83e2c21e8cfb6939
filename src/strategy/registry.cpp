#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <typeinfo>

#include "base/registry.h"
#include "base/spec.h"
#include "thinwire/strategy.h"

namespace thinwire {
namespace strategy {

#define TW_STRATEGY(word, help) std::unique_ptr<Strategy> make_##word(base::Spec& spec);
#include "strategy/list.inc"
#undef TW_STRATEGY

}  // namespace strategy

namespace {

#define TW_STRATEGY(word, help) base::Entry<Strategy>{#word, help, strategy::make_##word},
constexpr base::Entry<Strategy> kEntries[] = {
#include "strategy/list.inc"
};
#undef TW_STRATEGY
static_assert(base::names_are_unique(kEntries));

#define TW_STRATEGY(word, help) StrategyInfo{#word, help},
constexpr StrategyInfo kStrategies[] = {
#include "strategy/list.inc"
};
#undef TW_STRATEGY

}  // namespace

std::span<const StrategyInfo> strategies() { return kStrategies; }

std::vector<SpecKey> strategy_keys(std::string_view name) {
  return base::keys_of(base::find_entry<Strategy>("strategy", kEntries, name));
}

std::unique_ptr<Strategy> make_strategy(std::string_view spec_text) {
  auto made = base::make_part<Strategy>("strategy", kEntries, spec_text);
  made->spec_ = spec_text;
  return made;
}

std::string Strategy::describe() const {
  if (!spec_.empty()) return spec_;
  const char* const mangled = typeid(*this).name();
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return name ? name.get() : mangled;
}

void GradientStrategy::return_update(const GradientStep&) {}

int GradientStrategy::serving_ranks(int) const { return 0; }

std::uint64_t ModelStrategy::dense_steps(const RunOptions&) const { return 0; }

void ModelStrategy::before_step(const GradientStep&) {}

double ModelStrategy::step_scale() const { return 1; }

void ModelStrategy::quiesce(const StrategyContext&, MutFloats) {}

std::uint64_t ModelStrategy::global_samples() const { return 0; }

SyncMode sync_mode_of(const Strategy& strategy) {
  const auto* models = dynamic_cast<const ModelStrategy*>(&strategy);
  return models == nullptr ? SyncMode::synchronous : models->sync_mode();
}

int serving_ranks_of(const Strategy& strategy, int ranks) {
  const auto* gradients = dynamic_cast<const GradientStrategy*>(&strategy);
  return gradients == nullptr || ranks == 1 ? 0 : gradients->serving_ranks(ranks);
}

void Strategy::save(Payload&) const {}

void Strategy::load(Bytes in) {
  if (in.empty()) return;
  throw WireError(
      fmt::format("strategy: {} bytes of state for a strategy that has none; the checkpoint is of "
                  "another strategy",
                  in.size()));
}

}  // namespace thinwire
