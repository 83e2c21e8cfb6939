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
  // A matrix that was compressed at a lower rank has an error memory, which is sent with it.
  bool has_error = false;
  std::size_t error = 0;  // offset among the matrices
};

struct LowRankLayout {
  std::vector<LowRankTensor> matrices;
  std::vector<ExactRange> exact;
  // Elements with an error memory, that are sent as they are, and of the two factors.
  std::size_t error_numel = 0, exact_numel = 0, p_numel = 0, q_numel = 0;
};

// A tensor of two or more dimensions is a matrix with a row for each index of the first. It is
// compressed if that at least halves what is sent of it, at the given rank or, if it has fewer rows
// or columns, at theirs. Matrices that pay at `lowest_rank` have an error memory; its offsets are
// the same for every rank from there on.
LowRankLayout low_rank_layout(const Layout& layout, std::size_t rank, std::size_t lowest_rank);
inline LowRankLayout low_rank_layout(const Layout& layout, std::size_t rank) {
  return low_rank_layout(layout, rank, rank);
}

}  // namespace thinwire::strategy
