// Keeps a worker that applies its own gradients from diverging.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

// A learning rate that is stable with the batches of all workers together may be too large for the
// noise of one worker's batch. The sign is gradients that are longer than all before. Such a
// gradient is shortened to kLongest times the usual length. The second one within kSoon gradients
// also lowers the rate of this worker, at most to the learning rate by the number of workers (the
// rate of a single batch by the linear scaling rule). Afterwards the rate slowly rises again.
//
// Models that are averaged rarely carry their own noise for many steps, so their rate is lower from
// the beginning: 1 / sqrt(min(P, 1 + ((interval - 1) / 9)^2)) of P workers.
class GradientGuard {
 public:
  static constexpr double kLongest = 3;           // times the usual length
  static constexpr double kLower = 0.7;           // factor of the rate after each long gradient
  static constexpr double kRaise = 1.005;         // factor of the rate after each other gradient
  static constexpr std::uint64_t kSoon = 30;      // gradients between two that are too long
  static constexpr std::uint64_t kFirst = 8;      // gradients that are never too long
  static constexpr std::uint64_t kMemory = 1000;  // gradients whose mean length is the usual one

  // Scales step.grads, finite gradients of this worker. `interval` is how many steps it takes alone
  // before a late average reaches it; 1 if averages are not late. Warns once when long gradients
  // have lowered the rate below a half.
  void limit(const GradientStep& step, std::uint64_t interval);

  // Returns the share of the learning rate that long gradients have left.
  double rate() const noexcept { return rate_; }
  // Appends shortened_gradients and learning_rate_share.
  void report(std::vector<Metric>& metrics) const;

  void save(base::ByteWriter& out) const;
  // Throws WireError if the state is damaged.
  void load(base::ByteReader& in);

 private:
  std::uint64_t seen_ = 0, shortened_ = 0, last_long_ = 0;
  double usual_ = 0;             // length of a gradient
  double rate_ = 1, scale_ = 1;  // what long gradients have left, and the factor of the last step
  bool warned_ = false;
};

}  // namespace thinwire::strategy
