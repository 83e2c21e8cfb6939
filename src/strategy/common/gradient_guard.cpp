#include "strategy/common/gradient_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "strategy/common/state.h"

namespace thinwire::strategy {
namespace {

// Returns the share of the learning rate at which models that are averaged every `interval` steps
// are stable. The form and kSteps were chosen by runs of lasgd on two tasks (docs/asynchronous.md).
double rate_between_averages(std::uint64_t interval, int workers) {
  constexpr double kSteps = 9;
  const double apart = static_cast<double>(interval - 1) / kSteps;
  return 1 / std::sqrt(std::min(1 + apart * apart, static_cast<double>(workers)));
}

}  // namespace

void GradientGuard::limit(const GradientStep& step, std::uint64_t interval) {
  const double length = norm(step.grads), longest = kLongest * usual_;
  const bool too_long = seen_ >= kFirst && usual_ > 0 && length > longest;
  ++seen_;
  // The usual length is that of the whole run: late in training most gradients are short, and the
  // few long ones are those from which the model still learns.
  usual_ +=
      ((too_long ? longest : length) - usual_) / static_cast<double>(std::min(seen_, kMemory));
  // A single long gradient is noise; two of them soon after each other are the beginning of
  // divergence.
  const bool again = too_long && shortened_ > 0 && seen_ - last_long_ <= kSoon;
  if (too_long) last_long_ = seen_;
  rate_ = again ? std::max(1.0 / step.workers(), kLower * rate_) : std::min(1.0, kRaise * rate_);
  shortened_ += too_long ? 1 : 0;
  if (rate_ < 0.5 && !std::exchange(warned_, true)) {
    step.warn(fmt::format(
        "rank {}: a gradient is {:.1f} times as long as usual (step {}), so that this rank "
        "continues with a lower learning rate until its gradients are shorter; a smaller learning "
        "rate, larger batches or more frequent averages may help",
        step.wire.rank(), kLongest * length / longest, step.step));
  }
  scale_ = std::max(1.0 / step.workers(), rate_ * rate_between_averages(interval, step.workers()));
  const auto factor = static_cast<float>(scale_ * (too_long ? longest / length : 1));
  if (factor == 1) return;
  for (float& value : step.grads) value *= factor;
}

void GradientGuard::report(std::vector<Metric>& metrics) const {
  metrics.push_back({"shortened_gradients", static_cast<double>(shortened_)});
  metrics.push_back({"learning_rate_share", scale_});
}

void GradientGuard::save(base::ByteWriter& out) const {
  for (const std::uint64_t number : {seen_, shortened_, last_long_}) out.put(number);
  for (const double number : {usual_, rate_}) out.put(number);
  out.put<std::uint32_t>(warned_ ? 1 : 0);
}

void GradientGuard::load(base::ByteReader& in) {
  for (std::uint64_t* number : {&seen_, &shortened_, &last_long_})
    *number = in.get<std::uint64_t>();
  for (double* number : {&usual_, &rate_}) *number = in.get<double>();
  warned_ = in.get<std::uint32_t>() != 0;
  if (!(usual_ >= 0 && std::isfinite(usual_) && rate_ > 0 && rate_ <= 1)) {
    throw WireError(fmt::format("gradient guard: its state is damaged (usual length {}, rate {})",
                                usual_, rate_));
  }
}

}  // namespace thinwire::strategy
