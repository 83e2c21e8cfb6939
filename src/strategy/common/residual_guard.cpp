#include "strategy/common/residual_guard.h"

#include <fmt/format.h>

namespace thinwire::strategy {

std::string ResidualGuard::observe(std::uint64_t step, double residual, double gradient,
                                   double density) {
  still_grows_ = false;
  const auto window = static_cast<std::uint64_t>(1 / density) + 1;
  if (step < window_start_ + window) return {};
  window_start_ = step;
  ++windows_;
  const double ratio = gradient > 0 ? residual / gradient : 0;
  const bool grew = ratio > kGrowth * last_ratio_ && residual > kGrowth * last_residual_;
  growing_ = windows_ > 1 && grew ? growing_ + 1 : 0;
  last_ratio_ = ratio;
  last_residual_ = residual;
  still_grows_ = growing_ >= kWindows;
  if (!still_grows_ || ratio < 2 * warned_) return {};
  warned_ = ratio;
  return fmt::format(
      "residual: it keeps growing (step {}, {:.0f} times the gradient), so that the run may "
      "diverge; use a higher density, a lower learning rate or a longer warm-up",
      step, ratio);
}

void ResidualGuard::save(base::ByteWriter& out) const {
  out.put(window_start_);
  out.put(last_ratio_);
  out.put(last_residual_);
  out.put(windows_);
  out.put(growing_);
  out.put(warned_);
}

void ResidualGuard::load(base::ByteReader& in) {
  window_start_ = in.get<std::uint64_t>();
  last_ratio_ = in.get<double>();
  last_residual_ = in.get<double>();
  windows_ = in.get<std::uint32_t>();
  growing_ = in.get<std::uint32_t>();
  warned_ = in.get<double>();
}

}  // namespace thinwire::strategy
