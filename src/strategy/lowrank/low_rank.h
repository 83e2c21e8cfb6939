// Which tensors PowerSGD sends as two thin matrices, and where the parts of each lie in its
// buffers.
#pragma once

#include <vector>

#include "kernel/power.h"
#include "thinwire/types.h"

namespace thinwire::strategy {

struct LowRankTensor {
  kernel::LowRankShape shape;
  std::size_t gradient = 0;  // offsets: in the model's flat buffers,
  std::size_t error = 0;     // among the matrices alone,
  std::size_t p = 0, q = 0;  // and among their factors
};

// Neighbouring elements of the flat buffers that are sent as they are.
struct ExactRange {
  std::size_t begin = 0, size = 0;
};

struct LowRankLayout {
  std::vector<LowRankTensor> matrices;
  std::vector<ExactRange> exact;
  std::size_t matrix_numel = 0, exact_numel = 0, p_numel = 0, q_numel = 0;
};

// A tensor of two or more dimensions is a matrix with a row for each index of the first. It is
// compressed if that at least halves what is sent of it, at the given rank or, if it has fewer rows
// or columns, at theirs.
LowRankLayout low_rank_layout(const Layout& layout, std::size_t rank);

}  // namespace thinwire::strategy
