// The specification of accumulation and selection, one number at a time and by sorting. Slow; what
// the tests and benchmarks hold the fast ones against.
#pragma once

#include "kernel/topk.h"

namespace thinwire::kernel::reference {

// What element i is after the step.
struct Accumulated {
  float residual;
  float velocity;  // 0 without one
};
Accumulated accumulated(const Accumulation& accumulation, std::size_t i);

// Does the step, for element i or for all.
void accumulate(const Accumulation& accumulation, std::size_t i);
void accumulate(const Accumulation& accumulation);

// The min(k, n) largest entries.
Sparse largest(Floats values, std::size_t k);

// As TopK::select.
Sparse select(const Accumulation& accumulation, std::size_t k);

}  // namespace thinwire::kernel::reference
