// The specification of accumulation and selection, written for one number at a time and by sorting.
// It is slow; tests and benchmarks compare the fast kernels with it.
#pragma once

#include "kernel/topk.h"

namespace thinwire::kernel::reference {

// The values of one element after the step.
struct Accumulated {
  float residual;
  float velocity;  // 0 if there is no velocity
};
Accumulated accumulated(const Accumulation& accumulation, std::size_t i);

// Perform the accumulation for element i, or for all elements.
void accumulate(const Accumulation& accumulation, std::size_t i);
void accumulate(const Accumulation& accumulation);

// Returns the min(k, n) largest entries.
Sparse largest(Floats values, std::size_t k);

// Does the same as TopK::select.
Sparse select(const Accumulation& accumulation, std::size_t k);

}  // namespace thinwire::kernel::reference
