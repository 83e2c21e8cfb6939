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
  return base::make_part<Strategy>("strategy", kEntries, spec_text);
}

SgdConfig Strategy::optimizer_share(const SgdConfig& asked, int) const { return asked; }

SyncMode Strategy::sync_mode() const { return SyncMode::synchronous; }

int Strategy::first_worker(int) const { return 0; }

std::uint64_t Strategy::global_samples() const { return 0; }

std::vector<Metric> Strategy::metrics() const { return {}; }

void Strategy::save(Payload&) const {}

void Strategy::load(Bytes in) {
  if (!in.empty()) {
    throw WireError("a strategy without state was given " + std::to_string(in.size()) +
                    " bytes of it: the checkpoint is of another strategy");
  }
}

}  // namespace thinwire
