#include "strategy/gossip/own_movement.h"

#include <algorithm>
#include <cmath>

#include "strategy/common/state.h"

namespace thinwire::strategy {
namespace {

double square(float value) { return static_cast<double>(value) * static_cast<double>(value); }

}  // namespace

// The position within a stride varies, because layers may repeat patterns at regular distances.
std::size_t OwnMovement::element(std::size_t i) const noexcept {
  if (stride_ == 1) return i;
  return i * stride_ + (i * 2'654'435'761u >> 8) % stride_;
}

void OwnMovement::begin(Floats params) {
  stride_ = params.size() <= kSample ? 1 : params.size() / kSample;
  at_.resize(params.size() / stride_);
  prepare(moved_, at_.size(), "own movement");
  merged(params);
  length_ = norm(moved_);
  sent_at_ = norm(at_);
}

void OwnMovement::stepped(Floats params) {
  double step = 0, length = 0;
  for (std::size_t i = 0; i < at_.size(); ++i) {
    const float now = params[element(i)];
    const float change = now - at_[i];
    moved_[i] += change;
    at_[i] = now;
    step += square(change);
    length += square(moved_[i]);
  }
  step_ = std::sqrt(step);
  length_ = std::sqrt(length);
}

void OwnMovement::merged(Floats params) {
  for (std::size_t i = 0; i < at_.size(); ++i) at_[i] = params[element(i)];
}

void OwnMovement::sent() {
  std::ranges::fill(moved_, 0.0f);
  length_ = 0;
  sent_at_ = norm(at_);
}

}  // namespace thinwire::strategy
