// Chooses how much of the gradient a sparse strategy sends, once for the whole run or several
// times.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/spec.h"
#include "strategy/common/density.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Coverage is how often each coordinate of each worker is delivered in a run: density times steps
// times the share of a worker's picks that are applied. Keys:
//   density   a number, or `auto`: the smallest density that reaches kWantedCoverage
//   warmup    see DensitySchedule
//
// An automatic density is base * 2^(level/2), where the base follows from the length of the run and
// the level is decided by all ranks together after the warm-up and 2 % of the run more, and after
// every tenth of it. Levels are so far apart that noise seldom changes one, and from the second
// decision on the density changes by one level at a time. Times decide nothing, so that the same
// run has the same result on every transport and machine.
class DensityControl {
 public:
  static constexpr double kWantedCoverage = 30;
  static constexpr double kFewCoverage = 10;  // below it a run loses accuracy

  // `unknown_length` is the automatic density where the length of the run is not known.
  DensityControl(base::Spec& spec, double unknown_length);

  // Sets the density of the first step. `applied` is how many times k coordinates a step changes at
  // most. A state that was loaded stays.
  void begin(const RunOptions& run, int workers, double applied);

  bool automatic() const noexcept { return automatic_; }
  double target() const noexcept { return schedule_.target(); }
  // Returns how many of n elements are sent in a step: at least 1, at most n.
  std::size_t count(std::size_t n, std::uint64_t step, const RunOptions& run) const {
    return schedule_.count(n, step, run);
  }
  // Returns the coverage of a run with density 1 whose steps are not dense.
  double coverage_per_density(const RunOptions& run) const;

  // Returns the first step at which enough was measured at the density of the run.
  std::uint64_t first_decision(const RunOptions& run) const;
  // Returns whether the ranks decide before this step; the same on every rank.
  bool is_due(std::uint64_t step, const RunOptions& run) const;

  // The numbers of one step, as one rank has measured them.
  struct Step {
    std::uint64_t number = 0;
    double delivered = 0;  // picks of this worker that were applied
    double changed = 0;    // coordinates that the step changed, 0 if it was dense
  };
  void count_step(const Step& step);

  // Chooses the density from the steps that all ranks counted since the last decision. All ranks
  // call it together. Returns whether the density changed. Nothing changes if it throws.
  bool decide(Transport& wire, int workers);

  // The values that decisions and steps change, so that a step that fails can be undone.
  struct State {
    std::int32_t level = -1;            // -1: not chosen yet
    std::uint32_t decided = 0;          // whether there was a decision
    double workers_per_change = 1;      // of the last decision
    double delivered = 0, changed = 0;  // since then, in sparse steps after the warm-up
  };
  const State& state() const noexcept { return state_; }
  void restore(const State& state);

  // Returns how many workers have contributed to a change, on average, as the last decision knew.
  double workers_per_change() const noexcept { return state_.workers_per_change; }

  void save(base::ByteWriter& out) const;
  // Throws WireError if the state is damaged.
  void load(base::ByteReader& in);

 private:
  double density_of(int level) const;
  int coverage_level(double workers_per_change) const;
  void set_level(int level);

  bool automatic_ = false;
  double unknown_length_;
  DensitySchedule schedule_;
  double base_ = 0;
  double applied_share_ = 1;  // of all picks, if no two workers pick the same coordinate
  bool by_coverage_ = false;  // the length of the run is known
  std::uint64_t warmup_end_ = 0;
  State state_;
};

}  // namespace thinwire::strategy
