// A model and gradients that are made up, for measurements that need no training.
#pragma once

#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::plan {

// Square layers, one with what is left of the rows, and a bias.
Layout layered(std::size_t numel, std::size_t side);

// What a smaller model has to share with a larger one: strategies treat matrices by their rows and
// columns, and vectors and other small tensors apart.
struct LayoutSummary {
  // A matrix such that so many equal ones have the elements, rows and columns of all.
  std::size_t rows = 1, columns = 1;
  double beside = 0;  // elements of small tensors, for each matrix

  std::size_t matrix_numel() const noexcept { return rows * columns; }
  double numel() const noexcept { return static_cast<double>(matrix_numel()) + beside; }
};
LayoutSummary summarize_layout(const Layout& model);

// About that many parameters, made up like that, in whole matrices.
Layout reduced(const LayoutSummary& summary, std::size_t numel);
// The same summary with matrices cut down, if need be, to at most so many parameters each.
LayoutSummary limited(const LayoutSummary& summary, std::size_t most);

// Gradients are multiples of 2^-11 in (-1, 1): the sum of up to this many is exact in any order.
inline constexpr int kMostExactWorkers = 1 << 12;

// What a rank has in one repetition. Most are small and few are large, as with real gradients.
void fill_gradient(MutFloats out, std::uint64_t seed, int rep, int rank);

// One element of the mean over all ranks, without any exchange.
float mean_gradient(std::size_t element, std::uint64_t seed, int rep, int workers);

}  // namespace thinwire::plan
