#include "strategy/common/density_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "thinwire/collective.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

// Limits of the share of the elements that each worker delivers per step. Below the first a
// coordinate would wait for more than 1000 steps, however long the run is. In a short run the
// second limits the bytes, as long as the coverage stays above kShortCoverage.
constexpr double kLeastDelivered = 0.001, kMostDelivered = 0.05;
constexpr double kShortCoverage = 20;
constexpr double kFirstShare = 0.02;        // of the run, from the warm-up to the first decision
constexpr std::uint64_t kFewestSteps = 20;  // between two decisions
constexpr std::uint64_t kDecisions = 10;    // per run
constexpr std::uint64_t kAssumedSteps = 10'000;  // of a run whose length is not known
constexpr int kMostLevel = 64;

std::uint64_t length_of(const RunOptions& run) { return run.steps > 0 ? run.steps : kAssumedSteps; }

// Returns the share of the elements that each worker has to deliver in each of `steps` steps.
double delivered_share(double steps) {
  const double most = std::max(kMostDelivered, kShortCoverage / steps);
  const double wanted = DensityControl::kWantedCoverage / steps;
  return std::min(1.0, std::clamp(wanted, kLeastDelivered, most));
}

// Returns 2^(level/2), the same bits on every machine.
double factor(int level) {
  return std::ldexp(level % 2 == 0 ? 1.0 : std::numbers::sqrt2, level / 2);
}

}  // namespace

DensityControl::DensityControl(base::Spec& spec, double unknown_length)
    : unknown_length_(unknown_length) {
  const auto density = spec.number_or_auto("density", DensitySchedule::kLowest, 1);
  automatic_ = !density;
  schedule_ = DensitySchedule::read(spec);
  if (density) schedule_.set_target(*density);
}

double DensityControl::density_of(int level) const { return std::min(1.0, base_ * factor(level)); }

void DensityControl::set_level(int level) {
  state_.level = level;
  schedule_.set_target(density_of(level));
}

void DensityControl::begin(const RunOptions& run, int workers, double applied) {
  applied_share_ = std::min(1.0, applied / workers);
  warmup_end_ = schedule_.warmup_end(run);
  if (!automatic_) return;
  by_coverage_ = run.steps > 0;
  base_ = by_coverage_ ? delivered_share(static_cast<double>(run.steps)) : unknown_length_;
  set_level(state_.level < 0 ? coverage_level(state_.workers_per_change) : state_.level);
}

double DensityControl::coverage_per_density(const RunOptions& run) const {
  return static_cast<double>(run.steps) * applied_share_;
}

// Returns the lowest level at which a worker delivers as much as the base says, although merges
// drop some of its picks.
int DensityControl::coverage_level(double workers_per_change) const {
  const double delivered = std::min(1.0, applied_share_ * workers_per_change);
  int level = 0;
  while (by_coverage_ && level < kMostLevel && factor(level) * delivered < 1) ++level;
  return level;
}

std::uint64_t DensityControl::first_decision(const RunOptions& run) const {
  const double share = kFirstShare * static_cast<double>(length_of(run));
  return schedule_.warmup_end(run) +
         std::max(kFewestSteps, static_cast<std::uint64_t>(std::ceil(share)));
}

bool DensityControl::is_due(std::uint64_t step, const RunOptions& run) const {
  if (!automatic_ || !by_coverage_ || applied_share_ == 1) return false;
  const std::uint64_t first = first_decision(run);
  if (step <= first) return step == first;
  const std::uint64_t every = length_of(run) / kDecisions;
  return every >= kFewestSteps && step % every == 0 && step >= first + kFewestSteps;
}

// In the warm-up the density is higher, and so is the number of workers per change.
void DensityControl::count_step(const Step& step) {
  if (!automatic_ || step.changed == 0 || step.number < warmup_end_) return;
  state_.delivered += step.delivered;
  state_.changed += step.changed;
}

void DensityControl::restore(const State& state) {
  state_ = state;
  if (automatic_ && state.level >= 0) set_level(state.level);
}

bool DensityControl::decide(Transport& wire, int workers) {
  std::vector<State> all(static_cast<std::size_t>(wire.size()));
  allgather(wire, std::as_bytes(std::span(&state_, 1)), std::as_writable_bytes(std::span(all)));
  double delivered = 0, changed = 0;
  for (const State& each : all) {
    delivered += each.delivered;
    changed = std::max(changed, each.changed);
  }
  // A rank that repeats a step which failed has decided already, perhaps: rank 0's state counts.
  const State& last = all[0];
  double met = last.workers_per_change;
  if (changed > 0) met = std::clamp(delivered / changed, 1.0, static_cast<double>(workers));
  int level = coverage_level(met);
  if (last.decided != 0) level = std::clamp(level, last.level - 1, last.level + 1);
  const double before = target();
  state_ = {.decided = 1, .workers_per_change = met};
  set_level(level);
  return target() != before;
}

void DensityControl::save(base::ByteWriter& out) const {
  out.put<std::int32_t>(state_.level);
  out.put(state_.decided);
  for (const double each : {state_.workers_per_change, state_.delivered, state_.changed}) {
    out.put(each);
  }
}

void DensityControl::load(base::ByteReader& in) {
  State state;
  state.level = in.get<std::int32_t>();
  state.decided = in.get<std::uint32_t>();
  for (double* each : {&state.workers_per_change, &state.delivered, &state.changed}) {
    *each = in.get<double>();
    if (!std::isfinite(*each) || *each < 0) {
      throw WireError(fmt::format("density control: its state is damaged (a sum is {})", *each));
    }
  }
  if (state.level < -1 || state.level > kMostLevel || state.workers_per_change < 1) {
    throw WireError(
        fmt::format("density control: its state is damaged (level {}, {} workers per change)",
                    state.level, state.workers_per_change));
  }
  state_ = state;
}

}  // namespace thinwire::strategy
