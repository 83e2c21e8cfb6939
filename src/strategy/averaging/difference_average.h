// The average of models in few bits: of their differences to a model that all ranks have.
#pragma once

#include <vector>

#include "collective/quantized_allreduce.h"

namespace thinwire::strategy {

// The reference has the same bits on every rank: the model before the first average, then the
// result of the last one. Differences to it are short, so that few bits are enough (rounded to the
// nearest level, with a norm for each 256 of them). The rounding error stays in the model of its
// worker, and so it is part of the next difference.
class DifferenceAverage {
 public:
  explicit DifferenceAverage(unsigned bits) : allreduce_({{bits}, 1}) {}

  // Called once, before the first average. `params` must have the same bits on every rank, unless
  // restore() has brought a reference. Parts have at most `longest_part` elements.
  void begin(Floats params, std::size_t longest_part, int ranks);
  // Replaces the reference, between two averages; the same bits on every rank.
  void set_reference(Floats params);

  // Averages the elements [begin, begin + snapshot.size()) of all models; called by all ranks
  // together. Replaces `snapshot` by the model that this rank has sent, and writes the mean of all
  // of these to `mean`, the same bits on every rank. Returns false on all ranks, and changes
  // nothing, if a model is not finite. Throws TransportError if a peer fails.
  bool average(Transport& wire, std::size_t begin, MutFloats snapshot, MutFloats mean);

  // The reference as part of a checkpoint; restore() before begin().
  const std::vector<float>& reference() const noexcept { return reference_; }
  void restore(std::vector<float> reference) { reference_ = std::move(reference); }

 private:
  collective::QuantizedAllreduce allreduce_;
  std::vector<float> reference_;
  std::vector<float> difference_;  // of one part; then its rounding errors
};

}  // namespace thinwire::strategy
