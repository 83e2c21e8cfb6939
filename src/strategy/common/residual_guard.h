// Notices a residual that outgrows the gradients: the sign of a sparse run that will diverge.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace thinwire::strategy {

// While residuals fill up their ratio to the gradient grows by itself, for about 1 / density steps:
// by then every element was due once. What still grows, window after window of that length, does
// not stop by itself. Late in training the ratio also grows because the gradients vanish; so the
// residual has to grow as well.
class ResidualGuard {
 public:
  // A warning, or nothing. Both are L2 norms at `step`.
  std::string observe(std::uint64_t step, double residual, double gradient, double density);

  // The state as part of a checkpoint. load throws WireError if the bytes end too early.
  void save(base::ByteWriter& out) const;
  void load(base::ByteReader& in);

 private:
  static constexpr double kGrowth = 1.5;        // from window to window
  static constexpr std::uint32_t kWindows = 3;  // that many in a row

  std::uint64_t window_start_ = 0;
  double last_ratio_ = 0, last_residual_ = 0;  // at the end of the last window
  std::uint32_t windows_ = 0;                  // complete ones
  std::uint32_t growing_ = 0;                  // in a row
  double warned_ = 0;  // ratio of the last warning; the next comes at the double
};

}  // namespace thinwire::strategy
