// Chooses how much of the gradient a sparse strategy sends, for the whole run or again and again.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/spec.h"
#include "strategy/common/density.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Coverage is how often each coordinate of each worker is delivered in a run: density times steps
// times the share of a worker's picks that are applied. Keys:
//   density   a number, or `auto`: the smallest density that reaches kWantedCoverage, raised up to
//             four times as long as the exchange takes no more than the budget
//   budget    the share of a step that an exchange may take; 0: density is never raised
//   warmup    see DensitySchedule
//
// An automatic density is base * 2^(level/2), where the base follows from the length of the run and
// the level is decided by all ranks together after 2 % of the run and after every tenth of it.
// Levels are so far apart that noise seldom changes one. In runs of fewer than kShortestTimed
// steps, or of unknown length, times decide nothing, so that the same run has the same result on
// every transport.
class DensityControl {
 public:
  static constexpr double kWantedCoverage = 30;
  static constexpr double kFewCoverage = 10;  // below it a run loses accuracy
  static constexpr std::uint64_t kShortestTimed = 1000;

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

  // Returns the first step at which enough was measured.
  static std::uint64_t first_decision(const RunOptions& run);
  // Returns whether the ranks decide before this step; the same on every rank.
  bool is_due(std::uint64_t step, const RunOptions& run) const;

  // One step, as one rank has seen it.
  struct Step {
    std::uint64_t number = 0;
    double density = 0;    // the share of the elements that was sent
    double delivered = 0;  // picks of this worker that were applied
    double changed = 0;    // coordinates that the step changed, 0 if it was dense
    Seconds own{0};        // computing before the exchange
    Seconds exchange{0};
  };
  void count_step(const Step& step, const RunOptions& run);

  // All ranks together: chooses the density from what all of them counted since the last decision.
  // Returns whether it changed. Nothing changes if it throws.
  bool decide(Transport& wire, const RunOptions& run, int workers);

  // Returns how many workers have contributed to a change, on average, as the last decision knew.
  double workers_per_change() const noexcept { return workers_per_change_; }

  void save(base::ByteWriter& out) const;
  // Throws WireError if the state is damaged.
  void load(base::ByteReader& in);

 private:
  // Sums over the steps since the last decision. All ranks exchange them as they are.
  struct Window {
    double steps = 0, density = 0, own = 0, exchange = 0;  // steps that were timed
    double delivered = 0, changed = 0;                     // of sparse steps
    double workers_per_change = 1;                         // before the window
    double level = 0;
  };

  bool is_timed(const RunOptions& run) const;
  double density_of(int level) const;
  int coverage_level(double workers_per_change) const;
  int budget_level(const Window& slowest) const;
  void set_level(int level);

  bool automatic_ = false;
  double budget_ = 0;
  double unknown_length_;
  DensitySchedule schedule_;
  double base_ = 0;
  double applied_share_ = 1;  // of all picks, if no two workers pick the same coordinate
  bool by_coverage_ = false;  // the length of the run is known
  // The state:
  int level_ = -1;  // not chosen yet
  double workers_per_change_ = 1;
  Window window_;
  double usual_own_ = 0;  // seconds of computing in a step, smoothed
};

}  // namespace thinwire::strategy
