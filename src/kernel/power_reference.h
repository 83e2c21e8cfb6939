// The specification of the passes of PowerSGD, written for one number at a time. It includes the
// order of the operations; none are fused (no FMA).
#pragma once

#include "kernel/power.h"

namespace thinwire::kernel::reference {

// A dot product has this many partial sums, so that SIMD code can add in the same order: sum l adds
// elements l, l + 8, l + 16 ...
inline constexpr std::size_t kPartialSums = 8;
// Adds up the partial sums by halves: 4 sums of l and l + 4, then 2 of l and l + 2, then these two.
float total(const float (&sums)[kPartialSums]);

void project(const LowRankShape& shape, Floats error, MutFloats gradient, Floats q, MutFloats p);

// Every element of Q is the sum over the rows from top to bottom, starting with +0.
void project_back(const LowRankShape& shape, Floats matrix, Floats p, MutFloats q);

// Returns element (row, column) of P Q^T: the sum over the vectors in their order, starting with
// +0.
float low_rank_at(const LowRankShape& shape, Floats p, Floats q, std::size_t row,
                  std::size_t column);
void reconstruct(const LowRankShape& shape, Floats p, Floats own, Floats mean, MutFloats matrix,
                 MutFloats error);

}  // namespace thinwire::kernel::reference
