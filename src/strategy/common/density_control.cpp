#include "strategy/common/density_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "base/number.h"
#include "thinwire/collective.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

// Limits of the share of the elements that each worker delivers per step. Below the first a
// coordinate would wait for more than 1000 steps, however long the run is. In a short run the
// second limits the bytes, as long as the coverage stays above kShortCoverage.
constexpr double kLeastDelivered = 0.001, kMostDelivered = 0.05;
constexpr double kShortCoverage = 20;
constexpr double kFirstShare = 0.02;             // of the run, until the first decision
constexpr std::uint64_t kFewestSteps = 20;       // between two decisions
constexpr std::uint64_t kDecisions = 10;         // per run
constexpr std::uint64_t kAssumedSteps = 10'000;  // of a run whose length is not known
constexpr std::uint64_t kUntimedSteps = 5;       // the first ones allocate memory
constexpr double kTolerance = 1.5;  // an exchange that exceeds its budget by less stays as it is
constexpr int kMostLevel = 64;
// Above four times the coverage that is wanted, more entries cost bytes and gain no accuracy.
constexpr int kMostRaise = 4;

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
  const std::string text = spec.text("density", "auto", "auto, or 1e-07 ... 1");
  automatic_ = text == "auto";
  budget_ = spec.number("budget", 0.1, 0, 0.9);
  schedule_ =
      automatic_ ? DensitySchedule::read_warmup(spec) : DensitySchedule::read(spec, unknown_length);
}

double DensityControl::density_of(int level) const { return std::min(1.0, base_ * factor(level)); }

void DensityControl::set_level(int level) {
  level_ = level;
  schedule_.set_target(density_of(level));
}

void DensityControl::begin(const RunOptions& run, int workers, double applied) {
  applied_share_ = std::min(1.0, applied / workers);
  if (!automatic_) return;
  by_coverage_ = run.steps > 0;
  base_ = by_coverage_ ? delivered_share(static_cast<double>(run.steps)) : unknown_length_;
  set_level(level_ < 0 ? coverage_level(workers_per_change_) : level_);
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

std::uint64_t DensityControl::first_decision(const RunOptions& run) {
  const double share = kFirstShare * static_cast<double>(length_of(run));
  return std::max(kFewestSteps, static_cast<std::uint64_t>(std::ceil(share)));
}

bool DensityControl::is_timed(const RunOptions& run) const {
  return automatic_ && budget_ > 0 && run.steps >= kShortestTimed;
}

bool DensityControl::is_due(std::uint64_t step, const RunOptions& run) const {
  const bool by_outcome = automatic_ && by_coverage_ && applied_share_ < 1;
  if (!by_outcome && !is_timed(run)) return false;
  const std::uint64_t first = first_decision(run);
  if (step <= first) return step == first;
  const std::uint64_t every = length_of(run) / kDecisions;
  return every >= kFewestSteps && step % every == 0 && step >= first + kFewestSteps;
}

void DensityControl::count_step(const Step& step, const RunOptions& run) {
  if (!automatic_) return;
  if (step.changed > 0) {
    window_.delivered += step.delivered;
    window_.changed += step.changed;
  }
  if (!is_timed(run) || step.number < kUntimedSteps) return;
  window_.steps += 1;
  window_.density += step.density;
  // A step after which the model was tested or saved took no longer than others.
  const double own = step.own.count();
  usual_own_ =
      usual_own_ == 0 ? own : usual_own_ + 0.1 * (std::min(own, 4 * usual_own_) - usual_own_);
  window_.own += std::min(own, 2 * usual_own_);
  window_.exchange += step.exchange.count();
}

// Returns the highest level at which the exchange takes no more than its budget. It assumes that
// the time is proportional to the density. A part of it is not, so that this asks for less than is
// free, and the next decision for more.
int DensityControl::budget_level(const Window& slowest) const {
  const int now = static_cast<int>(slowest.level);
  if (slowest.steps == 0) return now;
  const double allowed = budget_ / (1 - budget_) * slowest.own;
  const double density = slowest.density / slowest.steps;
  const double free = slowest.exchange > 0 ? density * allowed / slowest.exchange
                                           : std::numeric_limits<double>::infinity();
  if (free * kTolerance >= density_of(now) && free < density_of(now)) return now;
  int level = 0;
  while (level < kMostLevel && density_of(level) < 1 && base_ * factor(level + 1) <= free) ++level;
  return level;
}

bool DensityControl::decide(Transport& wire, const RunOptions& run, int workers) {
  Window mine = window_;
  mine.workers_per_change = workers_per_change_;
  mine.level = level_;
  std::vector<Window> all(static_cast<std::size_t>(wire.size()));
  allgather(wire, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  // A rank that repeats a step which failed has decided already, perhaps: rank 0's state counts.
  Window slowest = all[0];
  double delivered = 0, changed = 0;
  for (const Window& each : all) {
    slowest.steps = std::max(slowest.steps, each.steps);
    slowest.density = std::max(slowest.density, each.density);
    slowest.own = std::max(slowest.own, each.own);
    slowest.exchange = std::max(slowest.exchange, each.exchange);
    delivered += each.delivered;
    changed = std::max(changed, each.changed);
  }
  double met = all[0].workers_per_change;
  if (changed > 0) met = std::clamp(delivered / changed, 1.0, static_cast<double>(workers));
  const int by_coverage = coverage_level(met);
  const int level = is_timed(run)
                        ? std::clamp(budget_level(slowest), by_coverage, by_coverage + kMostRaise)
                        : by_coverage;
  const double before = target();
  workers_per_change_ = met;
  window_ = {};
  set_level(level);
  return target() != before;
}

void DensityControl::save(base::ByteWriter& out) const {
  out.put<std::int32_t>(level_);
  for (const double each : {workers_per_change_, window_.steps, window_.density, window_.own,
                            window_.exchange, window_.delivered, window_.changed, usual_own_}) {
    out.put(each);
  }
}

void DensityControl::load(base::ByteReader& in) {
  const auto level = in.get<std::int32_t>();
  Window window;
  double met = 0, usual_own = 0;
  for (double* each : {&met, &window.steps, &window.density, &window.own, &window.exchange,
                       &window.delivered, &window.changed, &usual_own}) {
    *each = in.get<double>();
    if (!std::isfinite(*each) || *each < 0) throw WireError("the state of a density is damaged");
  }
  if (level < -1 || level > kMostLevel || met < 1) {
    throw WireError(
        fmt::format("the state of a density is damaged (level {}, {} workers)", level, met));
  }
  level_ = level;
  workers_per_change_ = met;
  window_ = window;
  usual_own_ = usual_own;
}

}  // namespace thinwire::strategy
