// The mean of vectors that every rank rounds to the same lattice (QSGD-MaxNorm and its multi-scale
// form, Vineeth S 2021). The ranks first agree on the largest magnitude N of each bucket; then all
// round to multiples of N / s, and the integers add up exactly, in any order.
//
// The parts: shared_lattice.h (what the ranks agree on), tile_rounding.h (codes and back),
// quantized_words.h and quantized_two_hop.h (the two ways to add up codes).
#pragma once

#include <vector>

#include "collective/tile_rounding.h"
#include "collective/two_hop.h"

namespace thinwire::collective {

// Keeps its memory between exchanges; one thread at a time may use it. agree() and exchange() are
// called by all ranks together, in this order. Both throw TransportError if another rank fails.
class QuantizedAllreduce {
 public:
  explicit QuantizedAllreduce(Quantization quantization) : lattice_(std::move(quantization)) {}

  // Must be called once, before the first exchange, with the length of the longest vector. `absent`
  // says how many values are always 0, because they are sent in another way; they are left out of
  // the counts. Throws ConfigError if the sums would not be exact in a float.
  void begin(std::size_t most_elements, int ranks, std::size_t absent = 0);

  // Agrees on the norms of the values. `outside` is the largest bits of |x|
  // (kernel::highest_magnitude) of numbers that are not among the values. Returns false, on all
  // ranks alike, if any of these numbers is not finite on any rank. Changes no value.
  bool agree(Transport& wire, PhaseTiming& timing, Floats values, std::uint32_t outside) {
    return lattice_.agree_on_norms(wire, timing, values, outside);
  }

  // The vectors of one exchange. `values` are those of agree(); `mean` is as long, and may be the
  // same memory if the rounding is dithered. `seed` and `step` must be the same on every rank.
  struct Vectors {
    MutFloats values, mean;
    Rounding rounding = Rounding::dithered;
    std::uint64_t seed = 0, step = 0;
  };
  // Writes the mean over all ranks of the rounded values to `mean`. If the rounding is to nearest,
  // `values` become the rounding errors. If it throws, both are in an unspecified state.
  void exchange(Transport& wire, PhaseTiming& timing, const Vectors& vectors);

  // Counts over all exchanges so far, without the absent values.
  struct Counts {
    double elements = 0;       // with several scales: how many were sent
    double fine = 0;           // ... and how many of them in a finer scale than the first
    double two_hop_tiles = 0;  // tiles of the last exchange in two hops; 0 if there was none
  };
  const Counts& counts() const noexcept { return counts_; }
  bool has_scales() const noexcept { return lattice_.has_scales(); }
  int ranks() const noexcept { return ranks_; }

 private:
  void count_fine(std::size_t elements);

  SharedLattice lattice_;
  CodeWidths widths_;
  int ranks_ = 1;
  std::size_t absent_ = 0;
  Counts counts_;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint32_t> sums_;
  TwoHopExchange two_hop_;
};

}  // namespace thinwire::collective
