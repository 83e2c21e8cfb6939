// A model and gradients that are made up, for measurements that need no training.
#pragma once

#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::plan {

// Returns square layers, one with the remaining rows, and a bias.
Layout layered(std::size_t numel, std::size_t side);

// What a smaller model must have in common with a larger one, because strategies treat matrices by
// their rows and columns, and vectors and other small tensors separately.
struct LayoutSummary {
  // A matrix that, repeated, has the elements, rows and columns of all matrices together.
  std::size_t rows = 1, columns = 1;
  double small_numel = 0;  // elements of small tensors, for each matrix

  std::size_t matrix_numel() const noexcept { return rows * columns; }
  double numel() const noexcept { return static_cast<double>(matrix_numel()) + small_numel; }
};
LayoutSummary summarize_layout(const Layout& model);

// Returns a model of about that many parameters with this summary, in whole matrices.
Layout reduced(const LayoutSummary& summary, std::size_t numel);
// Returns the same summary with matrices cut down, if need be, to at most `most` parameters each.
LayoutSummary limited(const LayoutSummary& summary, std::size_t most);

// Gradients are multiples of 2^-11 in (-1, 1): the sum of up to this many is exact in any order.
inline constexpr int kMostExactWorkers = 1 << 12;

// Fills in the gradient of a rank in one repetition. Most entries are small and few are large, as
// in real gradients.
void fill_gradient(MutFloats out, std::uint64_t seed, int rep, int rank);

// Returns one element of the mean over all ranks, without any exchange.
float mean_gradient(std::size_t element, std::uint64_t seed, int rep, int workers);

}  // namespace thinwire::plan
