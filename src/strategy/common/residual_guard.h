// Notices a residual that outgrows the gradients: the sign of a sparse run that will diverge.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace thinwire::strategy {

// While residuals fill up, their ratio to the gradient grows for about 1 / density steps, in which
// every element is sent once. A ratio that still grows, from one window of that length to the next,
// does not stop by itself. Late in training the ratio also grows because the gradients vanish, so
// that the residual itself has to grow, too.
class ResidualGuard {
 public:
  // Observes the L2 norms of the residual and of the gradient at `step`. Returns a warning, or an
  // empty text.
  std::string observe(std::uint64_t step, double residual, double gradient, double density);
  // Returns whether the last observe() ended a window and the residual still grows. A warning comes
  // only when the ratio has doubled since the last one.
  bool still_grows() const noexcept { return still_grows_; }
  // Compares with nothing before: the residual may grow because the density has changed.
  void restart() noexcept { windows_ = growing_ = 0; }

  // The state as part of a checkpoint. load throws WireError if the bytes end too early.
  void save(base::ByteWriter& out) const;
  void load(base::ByteReader& in);

 private:
  static constexpr double kGrowth = 1.5;        // from one window to the next
  static constexpr std::uint32_t kWindows = 3;  // windows in a row with that growth

  std::uint64_t window_start_ = 0;
  double last_ratio_ = 0, last_residual_ = 0;  // at the end of the last window
  std::uint32_t windows_ = 0;                  // complete ones
  std::uint32_t growing_ = 0;                  // in a row
  double warned_ = 0;  // ratio of the last warning; the next one is given at twice that ratio
  bool still_grows_ = false;  // as of the last observe()
};

}  // namespace thinwire::strategy
