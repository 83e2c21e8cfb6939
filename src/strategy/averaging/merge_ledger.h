// What rounds of averaging have found out and the training thread has not applied yet. The two
// meet only here: the rounds never see the model, the training thread never sees a round.
#pragma once

#include <mutex>
#include <vector>

#include "thinwire/types.h"

namespace thinwire::strategy {

// A round takes a snapshot S, gets the mean R of all workers' snapshots, and adds gain (R - S) to
// what is pending. At each step boundary a share of that moves to the model: steps made meanwhile
// survive, and the mean of all models does not change. A snapshot is the model of the last boundary
// plus what is pending, so that a round need not wait until the one before it was merged. Every
// element goes its own way: rounds may work through the model in parts.
class MergeLedger {
 public:
  // Nothing is pending; or, after a resume, what restore() brought.
  void begin(Floats params);

  // Training thread, at a step boundary: moves `share` of what is pending to params. Returns
  // whether a round was completed since the last call.
  bool merge(MutFloats params, float share = 1);

  // The rounds: elements [begin, begin + out.size()).
  void snapshot(std::size_t begin, MutFloats out) const;
  void add(std::size_t begin, Floats result, Floats snapshot, float gain = 1);
  void complete_round();

  // What is pending. While no round is going on.
  const std::vector<float>& pending() const noexcept { return pending_; }
  void restore(std::vector<float> pending) { pending_ = std::move(pending); }

 private:
  mutable std::mutex mutex_;
  std::vector<float> view_;     // the model at the last boundary plus what is pending
  std::vector<float> pending_;  // what rounds added and no merge has moved
  bool any_ = false;            // something is pending
  bool completed_ = false;
};

}  // namespace thinwire::strategy
