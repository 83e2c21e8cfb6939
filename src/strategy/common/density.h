// How much of the gradient is sent, over a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/spec.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Sparse exchange of an untrained network loses more than it saves, so that density starts high
// (Lin et al. 2018, Shi et al. 2019). Keys: density, and warmup, which is
//   auto      falls exponentially from four times the density, at most 0.25, over the first 2.5 %
//             of the run; nothing where the length of the run is not known
//   none
//   a+b+...   one density per epoch, then `density`
class DensitySchedule {
 public:
  static DensitySchedule read(base::Spec& spec, double fallback);
  // Reads `warmup` alone; set_target() must follow.
  static DensitySchedule read_warmup(base::Spec& spec);

  void set_target(double density) noexcept { target_ = density; }
  double target() const noexcept { return target_; }
  double at(std::uint64_t step, const RunOptions& run) const;
  // How many of n elements: at least 1, at most n.
  std::size_t count(std::size_t n, std::uint64_t step, const RunOptions& run) const;

 private:
  enum class Warmup { automatic, none, list };

  double target_ = 0;
  Warmup warmup_ = Warmup::automatic;
  std::vector<double> list_;
};

}  // namespace thinwire::strategy
