// The passes over memory that PowerSGD is made of, in vector code for whatever CPU this is. Bit for
// bit the same on all of them, and the same as kernel/power_reference.h.
#pragma once

#include "thinwire/types.h"

namespace thinwire::kernel {

inline constexpr std::size_t kMostRank = 32;

// A matrix M, row after row, and its factors: P has `rank` vectors of `rows` elements, Q as many of
// `columns`, one after the other. The rank is at most kMostRank.
struct LowRankShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;

  std::size_t numel() const noexcept { return rows * columns; }
  std::size_t p_numel() const noexcept { return rank * rows; }
  std::size_t q_numel() const noexcept { return rank * columns; }
};

// gradient += error, which makes it M; P = M Q.
void project(const LowRankShape& shape, Floats error, MutFloats gradient, Floats q, MutFloats p);

// Q = M^T P.
void project_back(const LowRankShape& shape, Floats matrix, Floats p, MutFloats q);

// error = M - P own^T; M becomes P mean^T.
void reconstruct(const LowRankShape& shape, Floats p, Floats own, Floats mean, MutFloats matrix,
                 MutFloats error);

}  // namespace thinwire::kernel
