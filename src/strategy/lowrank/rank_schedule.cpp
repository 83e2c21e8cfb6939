#include "strategy/lowrank/rank_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernel/power.h"
#include "thinwire/error.h"

namespace thinwire::strategy {

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
  const auto fixed = spec.integer_or_auto("rank", 1, kernel::kMostRank);
  out.automatic_ = !fixed;
  if (fixed) out.start(static_cast<std::size_t>(*fixed));
  return out;
}

RankSchedule::Growth RankSchedule::observe(std::uint64_t step, const ErrorMemoryNorms& norms) {
  const bool high = last_norm_ > 0 && last_observation_ > emptied_at_ && norms.ratio > kHighRatio;
  const float filled =
      high ? last_norm_ * std::sqrt(static_cast<float>(step - emptied_at_) /
                                    static_cast<float>(last_observation_ - emptied_at_))
           : 0;
  const bool jumps = high && norms.norm > kJump * filled;
  const bool grows = high && norms.norm > kGrowth * filled;
  growing_ = jumps ? kObservations : grows ? growing_ + 1 : 0;
  last_norm_ = norms.norm;
  last_observation_ = step;
  if (growing_ < kObservations) return Growth::calm;
  return raise() ? Growth::raised : Growth::alarm;
}

bool RankSchedule::raise() noexcept {
  if (rank_ == highest_) return false;
  for (int doubled = 0; doubled < 2 && rank_ < highest_; ++doubled) rank_ *= 2;
  return true;
}

void RankSchedule::emptied(std::uint64_t step) noexcept {
  emptied_at_ = last_observation_ = step;
  last_norm_ = 0;
  growing_ = 0;
}

void RankSchedule::save(base::ByteWriter& out) const {
  out.put(static_cast<std::uint32_t>(lowest_));
  out.put(static_cast<std::uint32_t>(rank_));
  out.put(last_norm_);
  out.put(growing_);
  out.put(last_observation_);
  out.put(emptied_at_);
}

void RankSchedule::load(base::ByteReader& in) {
  const auto lowest = in.get<std::uint32_t>(), rank = in.get<std::uint32_t>();
  last_norm_ = in.get<float>();
  growing_ = in.get<std::uint32_t>();
  last_observation_ = in.get<std::uint64_t>();
  emptied_at_ = in.get<std::uint64_t>();
  if (last_observation_ < emptied_at_) {
    throw WireError(
        fmt::format("powersgd: its state is damaged (last observation at step {}, error memory "
                    "empty since step "
                    "{})",
                    last_observation_, emptied_at_));
  }
  if (automatic_ && lowest == 0 && rank == 0) return;  // saved before the run began
  const bool doubled = lowest > 0 && rank % lowest == 0 && std::has_single_bit(rank / lowest);
  if (!doubled || rank > kernel::kMostRank || (!automatic_ && lowest != lowest_)) {
    throw WireError(fmt::format(
        "powersgd: its state has another rank than the run (rank {}, {} at the start); resume with "
        "the rank that saved it",
        rank, lowest));
  }
  start(lowest);
  rank_ = highest_ = rank;
}

}  // namespace thinwire::strategy
