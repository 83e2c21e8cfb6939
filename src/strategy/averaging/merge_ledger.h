// Holds the corrections that rounds of averaging have computed and that the training thread has not
// applied yet. The rounds never use the model, and the training thread never uses a round: they
// share only this object.
#pragma once

#include <mutex>
#include <vector>

#include "thinwire/types.h"

namespace thinwire::strategy {

// A round takes a snapshot S, computes the mean R of the snapshots of all workers, and adds
// gain (R - S) to the pending sum. At each step boundary a share of the pending sum moves to the
// model: steps made meanwhile are kept, and the mean of all models does not change. A snapshot is
// the model of the last boundary plus the pending sum, so that a round need not wait until the one
// before it was merged. Elements are independent of each other, so that rounds may process the
// model in parts.
class MergeLedger {
 public:
  // Starts with the pending sum of restore(), or with 0.
  void begin(Floats params);

  // Moves `share` of the pending sum to params. Returns whether a round was completed since the
  // last call. The training thread calls it at a step boundary.
  bool merge(MutFloats params, float share = 1);

  // The methods below are for the rounds.

  // Writes the elements [begin, begin + out.size()) of a snapshot to `out`.
  void snapshot(std::size_t begin, MutFloats out) const;
  // Adds gain (result - snapshot) to the pending sum of the elements from `begin` on.
  void add(std::size_t begin, Floats result, Floats snapshot, float gain = 1);
  void complete_round();
  // Returns whether a round was completed since the last merge.
  bool has_completed_round() const;

  // Return and set the pending sum. They must not be called during a round.
  const std::vector<float>& pending() const noexcept { return pending_; }
  void restore(std::vector<float> pending) { pending_ = std::move(pending); }

 private:
  mutable std::mutex mutex_;
  std::vector<float> view_;     // the model at the last boundary plus the pending sum
  std::vector<float> pending_;  // the corrections that no merge has moved to the model
  bool any_ = false;            // whether the pending sum may differ from 0
  bool completed_ = false;
};

}  // namespace thinwire::strategy
