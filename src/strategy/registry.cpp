#include "thinwire/strategy.h"

namespace thinwire {

#define TW_STRATEGY(word, help) std::unique_ptr<Strategy> make_##word(Spec& spec);
#include "strategy/list.inc"
#undef TW_STRATEGY

namespace {
#define TW_STRATEGY(word, help) Entry<Strategy>{#word, help, make_##word},
constexpr Entry<Strategy> kStrategies[] = {
#include "strategy/list.inc"
};
#undef TW_STRATEGY
static_assert(names_are_unique(kStrategies));
}  // namespace

std::span<const Entry<Strategy>> strategies() { return kStrategies; }

std::unique_ptr<Strategy> make_strategy(std::string_view spec_text) {
  return make_part("strategy", strategies(), spec_text);
}

Descent Strategy::remaining(const Descent& asked, int) const { return asked; }

Pace Strategy::pace() const { return Pace::lockstep; }

int Strategy::first_worker(int) const { return 0; }

std::uint64_t Strategy::global_samples() const { return 0; }

std::vector<Figure> Strategy::figures() const { return {}; }

void Strategy::save(Payload&) const {}

void Strategy::load(Bytes in) {
  if (!in.empty()) {
    throw WireError("a strategy without state was given " + std::to_string(in.size()) +
                    " bytes of it: the checkpoint is of another strategy");
  }
}

}  // namespace thinwire
