#include "strategy/averaging/merge_ledger.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "strategy/common/state.h"

namespace thinwire::strategy {
namespace {

constexpr float kSmall = 1e-30f;

}  // namespace

void MergeLedger::begin(Floats params) {
  const std::lock_guard lock(mutex_);
  prepare(pending_, params.size(), "pending sum");
  any_ = true;  // the sum may have been restored
  view_.assign(params.begin(), params.end());
  for (std::size_t i = 0; i < view_.size(); ++i) view_[i] += pending_[i];
}

bool MergeLedger::merge(MutFloats params, float share) {
  const std::lock_guard lock(mutex_);
  if (any_) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      // The rest of a correction moves as a whole, before it becomes subnormal, which is slow.
      const float moved = std::abs(pending_[i]) < kSmall ? pending_[i] : share * pending_[i];
      params[i] += moved;
      pending_[i] -= moved;
      view_[i] = params[i] + pending_[i];
    }
  } else {
    std::ranges::copy(params, view_.begin());
  }
  any_ = any_ && share < 1;
  return std::exchange(completed_, false);
}

void MergeLedger::snapshot(std::size_t begin, MutFloats out) const {
  const std::lock_guard lock(mutex_);
  std::copy_n(view_.begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
}

void MergeLedger::add(std::size_t begin, Floats result, Floats snapshot, float gain) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float change = gain * (result[i] - snapshot[i]);
    pending_[begin + i] += change;
    view_[begin + i] += change;
  }
  any_ = true;
}

void MergeLedger::complete_round() {
  const std::lock_guard lock(mutex_);
  completed_ = true;
}

bool MergeLedger::has_completed_round() const {
  const std::lock_guard lock(mutex_);
  return completed_;
}

}  // namespace thinwire::strategy
