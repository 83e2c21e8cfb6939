#include "strategy/lowrank/rank_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/number.h"
#include "kernel/power.h"
#include "thinwire/error.h"

namespace thinwire::strategy {

std::optional<std::uint64_t> number_or_auto(base::Spec& spec, std::string_view key,
                                            std::uint64_t lowest, std::uint64_t highest) {
  const std::string allowed = fmt::format("auto, or {} to {}", lowest, highest);
  const std::string text = spec.text(key, "auto", allowed);
  if (text == "auto") return std::nullopt;
  const auto number = base::parse_number<std::uint64_t>(text);
  if (number && *number >= lowest && *number <= highest) return number;
  throw ConfigError(
      fmt::format("{}: {} is out of range ({}); use {}", spec.name(), key, text, allowed));
}

std::uint64_t automatic_start(const RunOptions& run) {
  constexpr std::uint64_t kUnknownLength = 100;
  constexpr double kLeastShare = 0.02, kLeastSteps = 10, kMostShare = 0.1;
  if (run.steps == 0) return std::max(kUnknownLength, run.warmup_steps);
  const auto steps = static_cast<double>(run.steps);
  const double wanted =
      std::max({kLeastShare * steps, kLeastSteps, static_cast<double>(run.warmup_steps)});
  return static_cast<std::uint64_t>(std::ceil(std::min(wanted, kMostShare * steps)));
}

std::size_t automatic_rank(const RunOptions& run) {
  constexpr std::uint64_t kSent = 1000;  // vectors of a matrix that a run sends at least
  constexpr std::size_t kLowest = 4, kHighest = 16;
  if (run.steps == 0) return kLowest;
  const auto wanted = static_cast<std::size_t>((kSent + run.steps - 1) / run.steps);
  return std::clamp(std::bit_ceil(wanted), kLowest, kHighest);
}

RankSchedule RankSchedule::read(base::Spec& spec) {
  RankSchedule out;
  const auto fixed = number_or_auto(spec, "rank", 1, kernel::kMostRank);
  out.automatic_ = !fixed;
  if (fixed) out.start(static_cast<std::size_t>(*fixed));
  return out;
}

RankSchedule::Growth RankSchedule::observe(const ErrorLook& look) {
  const bool high = last_norm_ > 0 && look.ratio > kHighRatio;
  const bool jumps = high && look.norm > kJump * last_norm_;
  const bool grows = high && look.norm > kGrowth * last_norm_;
  growing_ = jumps ? kLooks : grows ? growing_ + 1 : 0;
  last_norm_ = look.norm;
  if (growing_ < kLooks) return Growth::calm;
  if (rank_ == highest_) return Growth::alarm;
  for (int doubled = 0; doubled < 2 && rank_ < highest_; ++doubled) rank_ *= 2;
  return Growth::raised;
}

void RankSchedule::save(base::ByteWriter& out) const {
  out.put(static_cast<std::uint32_t>(lowest_));
  out.put(static_cast<std::uint32_t>(rank_));
  out.put(last_norm_);
  out.put(growing_);
}

void RankSchedule::load(base::ByteReader& in) {
  const auto lowest = in.get<std::uint32_t>(), rank = in.get<std::uint32_t>();
  last_norm_ = in.get<float>();
  growing_ = in.get<std::uint32_t>();
  if (automatic_ && lowest == 0 && rank == 0) return;  // saved before the run began
  const bool doubled = lowest > 0 && rank % lowest == 0 && std::has_single_bit(rank / lowest);
  if (!doubled || rank > kernel::kMostRank || (!automatic_ && lowest != lowest_)) {
    throw WireError(
        fmt::format("the state of PowerSGD has rank {}, which is not that of the run", lowest));
  }
  start(lowest);
  rank_ = highest_ = rank;
}

}  // namespace thinwire::strategy
