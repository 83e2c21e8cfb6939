#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/spec.h"
#include "thinwire/error.h"

namespace thinwire::trainer {

Schedule Schedule::parse(std::string_view text, double base_rate, int workers) {
  static const std::vector<std::string> kShapes = {"constant", "step", "cosine"};
  base::Spec spec = base::Spec::parse(text);
  const auto found = std::find(kShapes.begin(), kShapes.end(), spec.name());
  if (found == kShapes.end()) {
    throw ConfigError(base::unknown_name("learning-rate schedule", spec.name(), kShapes));
  }
  Schedule schedule;
  schedule.shape_ = static_cast<Shape>(found - kShapes.begin());
  if (schedule.shape_ == Shape::step) {
    schedule.every_ = spec.number("every", 30, 1e-3, 1e9);
    schedule.factor_ = spec.number("factor", 0.1, 1e-9, 1);
  }
  schedule.warmup_ = spec.number("warmup", 0, 0, 1e9);
  static constexpr std::string_view kScales[] = {"none", "linear"};
  const bool scaled = spec.choice("scale", kScales) == "linear";
  spec.reject_unused();
  schedule.base_ = scaled ? base_rate * workers : base_rate;
  return schedule;
}

double Schedule::rate(double epoch, double total) const {
  double rate = base_;
  if (shape_ == Shape::step) rate *= std::pow(factor_, std::floor(epoch / every_));
  if (shape_ == Shape::cosine) {
    const double span = std::max(total - warmup_, 1e-9);
    const double progress = std::clamp((epoch - warmup_) / span, 0.0, 1.0);
    rate *= 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  if (epoch < warmup_) rate = base_ * (0.1 + 0.9 * epoch / warmup_);
  return rate;
}

}  // namespace thinwire::trainer
