// A model and gradients that are made up, for measurements that need no training.
#pragma once

#include <cstdint>

#include "thinwire/model.h"

namespace thinwire::cli {

// Square layers, one with what is left of the rows, and a bias.
Layout layered(std::size_t numel, std::size_t side);

// Gradients are multiples of 2^-11 in (-1, 1): the sum of up to this many is exact in any order.
inline constexpr int kMostExactWorkers = 1 << 12;

// What a rank has in one repetition. Most are small and few are large, as with real gradients.
void fill_gradient(MutFloats out, std::uint64_t seed, int rep, int rank);

// One element of the mean over all ranks, without any exchange.
float mean_gradient(std::size_t element, std::uint64_t seed, int rep, int workers);

}  // namespace thinwire::cli
