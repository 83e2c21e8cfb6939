// Decides which tensors PowerSGD sends as two thin matrices, and where the parts of each are in its
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
  // A matrix that was compressed at a lower rank has an error memory, which is sent with it.
  bool has_error = false;
  std::size_t error = 0;  // offset among the matrices
};

struct LowRankLayout {
  std::vector<LowRankTensor> matrices;
  std::vector<ExactRange> exact;
  // Numbers of elements: with an error memory, sent as they are, and of the two factors.
  std::size_t error_numel = 0, exact_numel = 0, p_numel = 0, q_numel = 0;
};

// Returns the layout for a rank. A tensor of two or more dimensions is a matrix with one row for
// each index of the first dimension. It is compressed if that at least halves its bytes, at the
// given rank or, if it has fewer rows or columns, at their number. Matrices that are compressed at
// `lowest_rank` have an error memory; its offsets are the same for all higher ranks.
LowRankLayout low_rank_layout(const Layout& layout, std::size_t rank, std::size_t lowest_rank);
inline LowRankLayout low_rank_layout(const Layout& layout, std::size_t rank) {
  return low_rank_layout(layout, rank, rank);
}

}  // namespace thinwire::strategy
