#include "strategy/common/density.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/number.h"
#include "base/spec.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

constexpr double kStart = 0.25, kStartFactor = 4;  // the warm-up starts at the smaller density
constexpr double kShareOfRun = 0.025;

double parse_density(std::string_view text) {
  const auto value = base::parse_number<double>(text);
  if (!value || !(*value >= DensitySchedule::kLowest) || *value > 1) {
    throw ConfigError(fmt::format(
        "warmup: not a density ({}); use auto, none, or one density of {} ... 1 per epoch, for "
        "example 0.25+0.0625+0.015625+0.004",
        text, DensitySchedule::kLowest));
  }
  return *value;
}

}  // namespace

DensitySchedule DensitySchedule::read(base::Spec& spec) {
  DensitySchedule schedule;
  const std::string text = spec.text("warmup", "auto", "auto, none, or a density per epoch: a+b+c");
  if (text == "none") schedule.warmup_ = Warmup::none;
  if (text == "auto" || text == "none") return schedule;
  schedule.warmup_ = Warmup::list;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    schedule.list_.push_back(parse_density(std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
  return schedule;
}

double DensitySchedule::at(std::uint64_t step, const RunOptions& run) const {
  const auto now = static_cast<double>(step);
  if (warmup_ == Warmup::none) return target_;
  if (warmup_ == Warmup::list) {
    if (run.steps_per_epoch <= 0) return target_;
    const double epoch = now / run.steps_per_epoch;
    return epoch < static_cast<double>(list_.size()) ? list_[static_cast<std::size_t>(epoch)]
                                                     : target_;
  }
  const double length = kShareOfRun * static_cast<double>(run.steps);
  const double start = std::min(kStart, kStartFactor * target_);
  if (now >= length || target_ >= start) return target_;
  return start * std::pow(target_ / start, now / length);
}

std::uint64_t DensitySchedule::warmup_end(const RunOptions& run) const {
  double length = 0;
  if (warmup_ == Warmup::automatic) length = kShareOfRun * static_cast<double>(run.steps);
  if (warmup_ == Warmup::list) length = run.steps_per_epoch * static_cast<double>(list_.size());
  return static_cast<std::uint64_t>(std::ceil(std::max(length, 0.0)));
}

std::size_t DensitySchedule::count(std::size_t n, std::uint64_t step, const RunOptions& run) const {
  if (n == 0) return 0;
  const auto wanted = static_cast<std::size_t>(at(step, run) * static_cast<double>(n));
  return std::clamp<std::size_t>(wanted, 1, n);
}

}  // namespace thinwire::strategy
