// The scale of a chart's axis: from values to places, and which values get a tick.
#pragma once

#include <span>
#include <vector>

namespace thinwire::cli {

class Axis {
 public:
  // Equal distances; both ends are round, and at least one tick apart.
  static Axis linear(double low, double high, int ticks = 5);
  // Equal ratios, from a tick below the least value to one above the largest. Values are positive.
  static Axis logarithmic(double low, double high);
  // Logarithmic if the positive ones among the values differ by more than kWide, and none is below
  // 0 (0 itself then lies at the low end), else linear from 0.
  static Axis fitting(std::span<const double> values);
  // For shares of right answers: as far as models are good, equal ratios of errors, so that 98 %
  // and 99 % are as far apart as 80 % and 90 %.
  static Axis of_accuracy(std::span<const double> values);

  static constexpr double kWide = 30;

  // 0 at the low end, 1 at the high end; values beyond are put there.
  double place(double value) const;
  const std::vector<double>& ticks() const noexcept { return ticks_; }
  double low() const noexcept { return ticks_.front(); }
  double high() const noexcept { return ticks_.back(); }
  bool is_linear() const noexcept { return scale_ == Scale::linear; }

 private:
  enum class Scale { linear, logarithmic, errors };
  Axis(Scale scale, std::vector<double> ticks) : scale_(scale), ticks_(std::move(ticks)) {}
  double stretched(double value) const;

  Scale scale_;
  std::vector<double> ticks_;  // ascending, at least two: the ends are ticks
};

}  // namespace thinwire::cli
