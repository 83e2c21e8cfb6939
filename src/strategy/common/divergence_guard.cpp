#include "strategy/common/divergence_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "strategy/common/state.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

void limit_norm(MutFloats values, double longest) {
  const double length = norm(values);
  if (!(longest > 0) || !(length > longest) || !std::isfinite(length)) return;
  const auto factor = static_cast<float>(longest / length);
  for (float& value : values) value *= factor;
}

}  // namespace

std::string DivergenceGuard::begin_step(std::uint64_t step, Alarm highest, double density) {
  const std::uint64_t quiet = std::max(kQuiet, static_cast<std::uint64_t>(2 / density));
  std::string warning;
  bool dense = false;
  if (highest != Alarm::none) {
    alarmed_at_ = step;
    const bool urgent = highest == Alarm::urgent;
    if (urgent || level_ == watching || step >= escalated_at_ + kPatience) {
      escalated_at_ = step;
      dense = urgent || level_ == sending_more;
      if (urgent) level_ = sending_more;
      if (!dense) level_ = static_cast<Level>(level_ + 1);
      warning = describe(step, dense);
    }
  } else if (level_ != watching && step >= alarmed_at_ + quiet) {
    alarmed_at_ = step;
    level_ = static_cast<Level>(level_ - 1);
  }
  residual_grows_ = false;
  safeguards_ = {level_ != watching, level_ == sending_more ? kMoreDensity : 1, dense};
  return warning;
}

std::string DivergenceGuard::describe(std::uint64_t step, bool dense) const {
  const double median = updates_.value();
  const std::string reason =
      (urgent_ || long_updates_ >= kInARow) && median > 0
          ? fmt::format("updates are {:.1f} times as long as usual", last_update_ / median)
          : "a residual keeps growing";
  const std::string measure =
      dense ? "this step is dense, and the residuals start again from 0"
      : level_ == clipping
          ? "gradients are clipped from now on"
          : fmt::format("{} times as many entries are sent from now on, if the strategy can",
                        kMoreDensity);
  return fmt::format(
      "training: the run is about to diverge (step {}, {}), so that {}; a lower learning rate or "
      "{} "
      "avoids this",
      step, reason, measure, remedy_);
}

void DivergenceGuard::clip(MutFloats gradient) const {
  if (safeguards_.clip) limit_norm(gradient, kClip * gradients_.value());
}

void DivergenceGuard::shorten(MutFloats update) const {
  if (safeguards_.dense) limit_norm(update, updates_.value());
}

void DivergenceGuard::end_step(double update_norm) {
  const double median = updates_.value();
  const bool is_long =
      updates_.full() && !(update_norm <= kLong * median) && !(update_norm <= highest_median_);
  long_updates_ = is_long ? long_updates_ + 1 : 0;
  const bool is_very_long =
      updates_.full() && update_norm > kVeryLong * median && update_norm > highest_median_;
  urgent_ = is_very_long || !std::isfinite(update_norm);
  last_update_ = update_norm;
  if (std::isfinite(update_norm)) updates_.add(update_norm);
  if (updates_.full()) highest_median_ = std::max(highest_median_, updates_.value());
}

// An update of r times as many entries, none of them larger, is up to sqrt(r) times as long. With r
// times fewer, each entry waits r times as long and is up to r times as large: the update is up to
// sqrt(r) times as long again. Only the last updates count as longer: highest_median_ follows from
// what really came.
void DivergenceGuard::density_changed(double ratio) {
  updates_.scale(std::sqrt(std::max(ratio, 1 / ratio)));
  residual_.restart();
}

// Clipped gradients are shorter than usual, so that they are not counted.
void DivergenceGuard::watch_gradient(double gradient_norm) {
  if (level_ == watching && alarm() == Alarm::none && std::isfinite(gradient_norm)) {
    gradients_.add(gradient_norm);
  }
}

std::string DivergenceGuard::watch_residual(std::uint64_t step, double residual, double gradient,
                                            double density) {
  std::string warning = residual_.observe(step, residual, gradient, density);
  residual_grows_ = residual_.still_grows();
  return warning;
}

void DivergenceGuard::save(base::ByteWriter& out) const {
  updates_.save(out);
  gradients_.save(out);
  out.put(highest_median_);
  out.put(last_update_);
  out.put(long_updates_);
  out.put<std::uint32_t>(urgent_ ? 1 : 0);
  residual_.save(out);
  out.put<std::uint32_t>(residual_grows_ ? 1 : 0);
  out.put<std::uint32_t>(level_);
  out.put(escalated_at_);
  out.put(alarmed_at_);
}

void DivergenceGuard::load(base::ByteReader& in) {
  updates_.load(in);
  gradients_.load(in);
  highest_median_ = in.get<double>();
  last_update_ = in.get<double>();
  if (!std::isfinite(highest_median_)) {
    throw WireError("divergence guard: its state is damaged (a median is not finite)");
  }
  long_updates_ = in.get<std::uint32_t>();
  urgent_ = in.get<std::uint32_t>() != 0;
  residual_.load(in);
  residual_grows_ = in.get<std::uint32_t>() != 0;
  const auto level = in.get<std::uint32_t>();
  if (level > sending_more) {
    throw WireError(fmt::format("divergence guard: its state is damaged (level {})", level));
  }
  level_ = static_cast<Level>(level);
  escalated_at_ = in.get<std::uint64_t>();
  alarmed_at_ = in.get<std::uint64_t>();
}

}  // namespace thinwire::strategy
