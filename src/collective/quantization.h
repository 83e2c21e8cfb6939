// The lattice that ranks round to in a quantized all-reduce, and the bits that its codes take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/quantize.h"

namespace thinwire::collective {

// How a vector is rounded.
struct Quantization {
  // The magnitude bits of each scale, coarsest first: scale k has s_k = 2^bits - 1 levels.
  std::vector<unsigned> bits = {4};
  std::size_t bucket_tiles = 16;  // how many tiles share a norm; 0: all

  std::uint32_t levels(std::size_t scale) const { return (1u << bits[scale]) - 1; }
};

// The number of bits of one code, and of the sum of one code from each rank. sum_bits are enough
// that a sum never carries into its neighbour.
struct CodeWidths {
  unsigned code_bits = 0;
  unsigned sum_bits = 0;
};
// Returns the widths for a group of `ranks`. Throws ConfigError, which says what to change, if the
// sums would not be exact in a float.
CodeWidths code_widths(const Quantization& quantization, int ranks);

// Returns the number of tiles of a vector with this many elements.
constexpr std::size_t tile_count(std::size_t elements) {
  return (elements + kernel::kTile - 1) / kernel::kTile;
}

// Returns the elements of one tile; the last may be shorter.
template <class Element>
std::span<Element> tile_of(std::span<Element> vector, std::size_t tile) {
  const std::size_t begin = tile * kernel::kTile;
  return vector.subspan(begin, std::min(kernel::kTile, vector.size() - begin));
}

}  // namespace thinwire::collective
