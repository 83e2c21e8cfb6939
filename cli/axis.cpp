#include "cli/axis.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace thinwire::cli {
namespace {

// 1, 2 or 5 times a power of ten, not less than `value`.
double round_step(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// The ticks of a list that enclose low ... high as closely as possible.
std::vector<double> enclosing(std::span<const double> list, double low, double high) {
  auto first = std::ranges::upper_bound(list, low);
  if (first != list.begin()) --first;
  auto last = std::ranges::lower_bound(list, high);
  if (last == list.end()) --last;
  if (first == last && last + 1 != list.end()) ++last;
  if (first == last) --first;
  return {first, last + 1};
}

}  // namespace

Axis Axis::linear(double low, double high, int ticks) {
  if (!(high > low)) high = low + std::max(1e-9, std::abs(low));
  const double step = round_step((high - low) / ticks);
  const double from = std::floor(low / step + 1e-9), to = std::ceil(high / step - 1e-9);
  std::vector<double> values;
  for (double i = from; i <= to; ++i) values.push_back(i * step);
  return {Scale::linear, std::move(values)};
}

Axis Axis::logarithmic(double low, double high) {
  const double tiny = std::numeric_limits<double>::min();
  low = std::max(low, tiny);
  high = std::max(high, low);
  std::vector<double> all;
  for (double exponent = std::floor(std::log10(low)); exponent <= std::ceil(std::log10(high)) + 1;
       ++exponent) {
    const double power = std::pow(10, exponent);
    all.insert(all.end(), {power, 2 * power, 5 * power});
  }
  std::vector<double> ticks = enclosing(all, low, high);
  // Where there are many powers of ten, between the ends they alone are ticks.
  constexpr std::size_t kManyTicks = 8;
  if (ticks.size() > kManyTicks) {
    const auto is_power = [](double tick) {
      const double exponent = std::log10(tick);
      return std::abs(exponent - std::round(exponent)) < 1e-9;
    };
    const auto odd = std::remove_if(ticks.begin() + 1, ticks.end() - 1,
                                    [&](double tick) { return !is_power(tick); });
    ticks.erase(odd, ticks.end() - 1);
  }
  return {Scale::logarithmic, std::move(ticks)};
}

Axis Axis::fitting(std::span<const double> values) {
  if (values.empty()) return linear(0, 1);
  const auto [low, high] = std::ranges::minmax(values);
  double least = high;  // of the positive ones
  for (const double value : values) least = value > 0 ? std::min(least, value) : least;
  if (low >= 0 && least > 0 && high / least > kWide) return logarithmic(least, high);
  return linear(std::min(0.0, low), high);
}

Axis Axis::of_accuracy(std::span<const double> values) {
  if (values.empty()) return linear(0, 1);
  const auto [low, high] = std::ranges::minmax(values);
  constexpr double kGood = 0.9;
  if (high < kGood) return linear(std::min(0.0, low), high);
  constexpr double kTicks[] = {0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999};
  return {Scale::errors, enclosing(kTicks, std::max(0.0, low), high)};
}

double Axis::stretched(double value) const {
  switch (scale_) {
    case Scale::linear:
      return value;
    case Scale::logarithmic:
      return std::log(value);
    case Scale::errors:
      return -std::log(1 - value);
  }
  return value;
}

double Axis::place(double value) const {
  if (!(value > low())) return 0;  // also what is no number
  if (value >= high()) return 1;
  const double start = stretched(low());
  return (stretched(value) - start) / (stretched(high()) - start);
}

}  // namespace thinwire::cli
