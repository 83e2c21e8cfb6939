// The passes over memory that PowerSGD consists of, in SIMD code for the CPU that runs it. The
// results have the same bits on every CPU as those of kernel/power_reference.h.
#pragma once

#include "thinwire/types.h"

namespace thinwire::kernel {

inline constexpr std::size_t kMostRank = 32;

// The sizes of a row-major matrix M and of its factors: P has `rank` vectors of `rows` elements, Q
// has `rank` vectors of `columns` elements, one after the other. The rank is at most kMostRank.
struct LowRankShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;

  std::size_t numel() const noexcept { return rows * columns; }
  std::size_t p_numel() const noexcept { return rank * rows; }
  std::size_t q_numel() const noexcept { return rank * columns; }
};

// Computes M = gradient + error in place of the gradient, and P = M Q.
void project(const LowRankShape& shape, Floats error, MutFloats gradient, Floats q, MutFloats p);

// Computes Q = M^T P.
void project_back(const LowRankShape& shape, Floats matrix, Floats p, MutFloats q);

// Sets error to M - P own^T and M to P mean^T.
void reconstruct(const LowRankShape& shape, Floats p, Floats own, Floats mean, MutFloats matrix,
                 MutFloats error);

}  // namespace thinwire::kernel
