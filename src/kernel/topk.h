// The exact selection of the largest entries of a vector, fused with the accumulation of gradients.
#pragma once

#include <cstdint>
#include <memory>

#include "thinwire/types.h"

namespace thinwire::kernel {

// Everywhere below, the k largest entries are those of largest magnitude; of equal magnitudes the
// lower index wins. Magnitudes are compared as the bits of |x|, so the result is a function of the
// data alone, for any bits: denormals count, +0 and -0 are equal, NaN is above infinity.

// What one step adds to the residual, which holds the gradient entries that were not sent yet. With
// the gradient g, the parameters w, the velocity u and the residual r, all of equal length:
//   d = g + weight_decay w                 (if weight_decay is 0, w is not read and may be empty)
//   no velocity (u empty):  r += d
//   velocity:               u = momentum u + d;    r += u       (momentum correction,
//   nesterov:               u = momentum (u + d);  r += u + d    Lin et al. 2018)
// The order of these operations is part of the definition; none are fused (no FMA).
struct Accumulation {
  MutFloats gradient;  // all 0 afterwards: clearing it is cheapest in the pass that reads it
  MutFloats residual;
  MutFloats velocity;
  Floats params;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
};

// Selects the exact top k in one pass over memory. It keeps the last threshold, on which only the
// speed depends, and its scratch memory: a call with no more elements than an earlier one allocates
// nothing if `out` has enough capacity.
class TopK {
 public:
  TopK();
  ~TopK();
  TopK(TopK&&) noexcept;
  TopK& operator=(TopK&&) noexcept;

  // Accumulates, then moves the min(k, n) largest entries of the residual to `out`: they are 0 in
  // the residual afterwards. The velocity is not cleared at these entries: only after the exchange
  // is it known whether a picked entry was applied and thus loses its momentum. Throws
  // std::invalid_argument if the lengths differ or there are more than 2^32 elements.
  void select(const Accumulation& accumulation, std::size_t k, Sparse& out);

  // The work of the last call, for benchmarks and tests.
  struct Work {
    std::size_t candidates = 0;  // entries that reached the threshold
    int rescans = 0;             // further passes, because the threshold was too high
    bool counted = false;        // k was too large for a list of candidates: three further passes
  };
  const Work& work() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace thinwire::kernel
