// The density of each step of a run: which share of the gradient is sent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/spec.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Sparse exchange of an untrained network loses more than it saves, so that density starts high
// (Lin et al. 2018, Shi et al. 2019). The key warmup is
//   auto      falls exponentially from four times the density, at most 0.25, over the first 2.5 %
//             of the run; there is no warm-up if the length of the run is not known
//   none      there is no warm-up
//   a+b+...   one density per epoch, then `density`
class DensitySchedule {
 public:
  static constexpr double kLowest = 1e-7;  // the lowest density that a key may have

  // Reads the key `warmup`; set_target() must follow. Throws ConfigError if a density is not
  // allowed.
  static DensitySchedule read(base::Spec& spec);

  // Sets the density after the warm-up.
  void set_target(double density) noexcept { target_ = density; }
  double target() const noexcept { return target_; }
  // Returns the density of a step.
  double at(std::uint64_t step, const RunOptions& run) const;
  // Returns the first step after the warm-up.
  std::uint64_t warmup_end(const RunOptions& run) const;
  // Returns how many of n elements are sent in a step: at least 1, at most n.
  std::size_t count(std::size_t n, std::uint64_t step, const RunOptions& run) const;

 private:
  enum class Warmup { automatic, none, list };

  double target_ = 0;
  Warmup warmup_ = Warmup::automatic;
  std::vector<double> list_;
};

}  // namespace thinwire::strategy
