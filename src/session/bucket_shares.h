// How the entries that a sparse strategy may select are divided between buckets, so that all of
// them use about the same threshold, as one selection over the whole model would.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/strategy.h"

namespace thinwire::session {

// Selecting over all buckets at once would mean to wait for the last of them. Instead the shares
// follow from the last step: a bucket whose exchanged entries were larger than those of the others
// selects more of them in the next step. Updates have the same bits on all ranks, and so have the
// shares.
class BucketShares {
 public:
  // The number of elements of each bucket.
  explicit BucketShares(std::vector<std::size_t> sizes);

  // Returns how many times its own part of the entries a bucket should select: 1 in the first step.
  double share(std::size_t bucket) const noexcept { return shares_[bucket]; }

  // Called after each step with the entries of one bucket that are not 0. A bucket without entries,
  // or with a dense update, keeps its share.
  void observe(std::size_t bucket, Floats grads, const Update& update);
  // Called after observe() for all buckets: computes the shares of the next step. Their mean over
  // all elements is 1, as far as their bounds (1/16 and 16) allow.
  void finish_step();

  // All shares, for a checkpoint. set() throws WireError unless they are as many as the buckets and
  // in range.
  const std::vector<double>& all() const noexcept { return shares_; }
  void set(std::vector<double> shares);

 private:
  void normalize();

  std::vector<std::size_t> sizes_;
  std::vector<double> shares_;
  // The magnitude of the middle entry of each bucket in this step; 0: unknown.
  std::vector<double> magnitudes_;
  std::vector<float> sorted_;  // scratch memory
};

}  // namespace thinwire::session
