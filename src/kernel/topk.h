// The exact selection of the largest entries of a vector, fused with the accumulation of gradients.
#pragma once

#include <cstdint>
#include <memory>

#include "thinwire/types.h"

namespace thinwire::kernel {

// Everywhere below, the k largest entries are those of largest magnitude; of equal magnitudes the
// lower index wins. Magnitudes are compared as the bits of |x|, so the result is a function of the
// data alone, for any bits: denormals count, +0 and -0 are equal, NaN is above infinity.

// What one step adds to the memory of what was not sent yet. With the gradient g, the parameters w,
// the velocity u and the residual r, all of equal length:
//   d = g + weight_decay w                 (if weight_decay is 0, w is not read and may be empty)
//   no velocity (u empty):  r += d
//   velocity:               u = momentum u + d;    r += u       (momentum correction,
//   nesterov:               u = momentum (u + d);  r += u + d    Lin et al. 2018)
// The order of these operations is part of the definition; none is fused (no FMA).
struct Accumulation {
  MutFloats gradient;  // all 0 afterwards: the pass that reads it is the cheapest to clear it
  MutFloats residual;
  MutFloats velocity;
  Floats params;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
};

// Exact top-k in one pass over memory. Remembers the last threshold (only speed depends on it) and
// its scratch memory, so that a call with no more elements than an earlier one allocates nothing
// once `out` has room.
class TopK {
 public:
  TopK();
  ~TopK();
  TopK(TopK&&) noexcept;
  TopK& operator=(TopK&&) noexcept;

  // Accumulates, then moves the min(k, n) largest entries of the residual to `out`: they are 0 in
  // the residual afterwards. The velocity keeps them, for whether what was picked is applied, and
  // loses its momentum, is known only after an exchange. At most 2^32 elements;
  // std::invalid_argument if the lengths differ.
  void select(const Accumulation& accumulation, std::size_t k, Sparse& out);

  // What the last call looked at; for benchmarks and tests.
  struct Work {
    std::size_t candidates = 0;  // entries that passed the filter
    int rescans = 0;             // further passes, because the filter had been too strict
    bool counted = false;        // too many winners for a filter: three further passes of counting
  };
  const Work& work() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace thinwire::kernel
