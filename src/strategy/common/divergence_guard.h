// Notices that a strategy with a residual is about to diverge, and decides what all ranks do then.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "strategy/common/residual_guard.h"
#include "strategy/common/running_median.h"
#include "thinwire/types.h"

namespace thinwire::strategy {

// What a rank sees, in the order of danger.
enum class Alarm { none, growing, urgent };

// The measures that all ranks take in a step against divergence. The default is none.
struct Safeguards {
  bool clip = false;   // every worker limits the norm of its own gradient: clip()
  double density = 1;  // times as many entries are sent as otherwise, if the strategy can
  bool dense = false;  // this step is dense, and the residuals are discarded: shorten()
};

// Updates made of residuals carry gradients of old models. Where these wait too long for the
// learning rate, updates grow, first slowly, then by orders of magnitude within ten steps.
//
// A rank is alarmed if several updates in a row are much longer than the median of the last ones,
// and longer than that median ever was (late in training it is small, and a hard batch is not
// divergence); or if its residual grows without bound. One update that is ten times as long, or not
// finite, is urgent. While any rank is alarmed, all ranks escalate together, every few steps:
//   1. They clip the gradients that enter the residuals (as Lin et al. 2018, who clip each worker's
//      gradient to 1 / sqrt(P) of the norm of the sum; here to twice its own usual norm).
//   2. They send more entries.
//   3. They make one dense step, not longer than usual, and start with empty residuals.
// After a quiet time they take back the first two, one at a time. Without an alarm nothing changes:
// the results of a healthy run have the same bits as without this class.
//
// In each step a strategy calls begin_step(), obeys safeguards() and calls end_step(). Decisions
// depend on the argument of begin_step() alone: the highest alarm() of all ranks, on which they
// agree by a vote. So all ranks decide the same.
class DivergenceGuard {
 public:
  // `remedy` is what, besides a lower learning rate, warnings advise: a text that is never freed.
  explicit DivergenceGuard(std::string_view remedy) : remedy_(remedy) {}
  DivergenceGuard() = default;

  // Returns whether this rank sees the run diverge.
  Alarm alarm() const noexcept {
    if (urgent_) return Alarm::urgent;
    return long_updates_ >= kInARow || residual_grows_ ? Alarm::growing : Alarm::none;
  }

  // Decides about this step, given the highest alarm of any rank. Returns a warning if the ranks
  // escalate, otherwise an empty text. An urgent alarm leads to the dense step at once. The
  // density, the same on all ranks, tells how long a residual may be silent although it grows.
  std::string begin_step(std::uint64_t step, Alarm highest, double density);
  const Safeguards& safeguards() const noexcept { return safeguards_; }

  // Makes the gradient of this worker not longer than two medians, if clipping is a safeguard of
  // this step. Changes nothing otherwise.
  void clip(MutFloats gradient) const;
  // Makes the update not longer than the median, if a dense step is a safeguard of this step.
  // Changes nothing otherwise.
  void shorten(MutFloats update) const;

  // The density has become `ratio` times what it was: updates may be longer and the residual may
  // grow because of that, which is no alarm.
  void density_changed(double ratio);

  // Observes the L2 norm of the update of this step.
  void end_step(double update_norm);
  // Observes the L2 norm of this worker's gradient before clipping, every few steps: clip()
  // compares with it.
  void watch_gradient(double gradient_norm);
  // Observes the L2 norms of this worker's residual and gradient, every few steps. Returns a
  // warning if the residual grows without bound, otherwise an empty text.
  std::string watch_residual(std::uint64_t step, double residual, double gradient, double density);

  // The state as part of a checkpoint. load throws WireError on foreign bytes.
  void save(base::ByteWriter& out) const;
  void load(base::ByteReader& in);

 private:
  static constexpr std::size_t kWindow = 64;            // updates of a median
  static constexpr double kLong = 2.5, kVeryLong = 10;  // medians
  static constexpr std::uint32_t kInARow = 3;           // long updates
  static constexpr std::uint64_t kPatience = 4;         // steps from one escalation to the next
  static constexpr double kClip = 2;                    // medians
  // Steps without alarm until a measure is taken back, at least. Residuals raise an alarm once in a
  // window of 1 / density steps: it is longer than two of these.
  static constexpr std::uint64_t kQuiet = 256;
  static constexpr double kMoreDensity = 4;

  enum Level : std::uint32_t { watching, clipping, sending_more };

  std::string describe(std::uint64_t step, bool dense) const;

  std::string_view remedy_ = "a higher density";
  // What this rank observed:
  RunningMedian<kWindow> updates_;
  RunningMedian<8> gradients_;
  double highest_median_ = 0;  // of updates
  double last_update_ = 0;
  bool urgent_ = false;
  std::uint32_t long_updates_ = 0;  // in a row
  ResidualGuard residual_;
  bool residual_grows_ = false;
  // What the ranks agreed on:
  Level level_ = watching;
  std::uint64_t escalated_at_ = 0, alarmed_at_ = 0;  // steps
  Safeguards safeguards_;
};

}  // namespace thinwire::strategy
