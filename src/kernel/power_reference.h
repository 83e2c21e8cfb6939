// The specification of the passes of PowerSGD, one number at a time. The order of the operations is
// part of it; none is fused (no FMA).
#pragma once

#include "kernel/power.h"

namespace thinwire::kernel::reference {

// A dot product is made of this many sums, of the elements whose indices have the same remainder,
// so that vector code can do it in the same order: sum l takes elements l, l + 8, l + 16 ...
inline constexpr std::size_t kPartialSums = 8;
// Added up by halves: 4 sums of l and l + 4, 2 of l and l + 2, and these two.
float total(const float (&sums)[kPartialSums]);

void project(const LowRankShape& shape, Floats error, MutFloats gradient, Floats q, MutFloats p);

// Every element is the sum over the rows from top to bottom, starting with +0.
void project_back(const LowRankShape& shape, Floats matrix, Floats p, MutFloats q);

// Element (row, column) of P Q^T: the sum over the vectors in their order, starting with +0.
float low_rank_at(const LowRankShape& shape, Floats p, Floats q, std::size_t row,
                  std::size_t column);
void reconstruct(const LowRankShape& shape, Floats p, Floats own, Floats mean, MutFloats matrix,
                 MutFloats error);

}  // namespace thinwire::kernel::reference
