// The rank of PowerSGD over a run.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/spec.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Returns how many steps are dense at first: 2 % of the run, 10 steps, or as many as the learning
// rate rises, whichever is most, but at most 10 % of the run, rounded up. The gradients of an
// untrained network change too fast for the power iteration. If the length of the run is not known,
// it is 100 steps, or as many as the learning rate rises. (early_steps() of the model strategies
// rounds down instead.)
std::uint64_t automatic_start(const RunOptions& run);

// Returns the rank at the start of a run. In a short run every direction must be sent soon: a
// matrix of 300 rows in 47 steps ended a point below dense at rank 16, and two points at rank 8.
std::size_t automatic_rank(const RunOptions& run);

// Measures of the error memories: means over all ranks.
struct ErrorMemoryNorms {
  float norm = 0;   // L2
  float ratio = 0;  // the same, divided by the norm of the worker's gradient
};

// The key `rank` is a number or `auto`, and gives the rank at the start of the run. The rank
// becomes four times as high when the error memory keeps growing: then more directions are needed
// than are sent, and the run is likely to diverge.
class RankSchedule {
 public:
  // Throws ConfigError if the rank is out of range.
  static RankSchedule read(base::Spec& spec);

  bool is_automatic() const noexcept { return automatic_; }
  // Returns whether start() must still be called.
  bool is_fresh() const noexcept { return rank_ == 0; }
  void start(std::size_t rank) noexcept { lowest_ = rank_ = highest_ = rank; }
  std::size_t rank() const noexcept { return rank_; }
  // Returns the rank at the start of the run.
  std::size_t lowest() const noexcept { return lowest_; }
  // Allows ranks up to `highest`.
  void limit(std::size_t highest) noexcept { highest_ = highest; }

  // Observes numbers that must be the same on every rank. An alarm means that the rank should rise,
  // but is as high as allowed.
  enum class Growth { calm, raised, alarm };
  Growth observe(std::uint64_t step, const ErrorMemoryNorms& norms);
  // Raises the rank as far as one observation may. Returns whether it did.
  bool raise() noexcept;
  // Notes that the error memories are empty before this step.
  void emptied(std::uint64_t step) noexcept;

  void save(base::ByteWriter& out) const;
  // Throws WireError if the saved ranks are not those of this schedule.
  void load(base::ByteReader& in);

 private:
  // Late in training the ratio grows because the gradients vanish. So both must be high, at several
  // observations in a row or in one jump. While the memory fills up with noise, it grows by itself,
  // as the root of the steps since it was empty. So only faster growth counts: directions that
  // every gradient has and that are not sent.
  static constexpr float kGrowth = 1.15f, kJump = 2, kHighRatio = 1.5f;
  static constexpr std::uint32_t kObservations = 2;

  bool automatic_ = true;
  std::size_t lowest_ = 0, rank_ = 0, highest_ = 0;
  float last_norm_ = 0;        // at the step last_observation_
  std::uint32_t growing_ = 0;  // observations in a row
  std::uint64_t last_observation_ = 0, emptied_at_ = 0;
};

}  // namespace thinwire::strategy
