// The lattice that workers round to, as its keys describe it, and the bits that its codes take.
#pragma once

#include <cstdint>
#include <vector>

#include "base/spec.h"

namespace thinwire::strategy {

// How a vector is rounded.
struct Quantization {
  // Magnitude bits of each scale, coarsest first: s_k = 2^bits - 1.
  std::vector<unsigned> bits = {4};
  std::size_t bucket_tiles = 16;  // that share a norm; 0: all of them

  // Keys: bits, scales and bucket.
  static Quantization read(base::Spec& spec, std::string_view usual_bucket);
  std::uint32_t levels(std::size_t scale) const { return (1u << bits[scale]) - 1; }
};

// Bits of one code, and of the sum of one from each worker: what is added never carries into its
// neighbour.
struct CodeWidths {
  unsigned code_bits = 0;
  unsigned sum_bits = 0;
};
// ConfigError, naming what to change, if the sums would not be exact in a float.
CodeWidths code_widths(const Quantization& quantization, int workers);

}  // namespace thinwire::strategy
