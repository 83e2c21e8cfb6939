// Rounding to a lattice that all workers share, and back, in vector code: bit for bit the same on
// every CPU, and the same as kernel/quantize_reference.h.
#pragma once

#include <array>
#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::kernel {

// Elements that are rounded and packed together. Tile t of a vector begins at element 256 t; the
// last may be shorter.
inline constexpr std::size_t kTile = 256;
inline constexpr std::size_t kMostScales = 4;
inline constexpr std::size_t kFitWords = kTile / 64;  // of one scale and tile

// What t becomes when it is rounded: floor(t) + floor(t - floor(t) + u). With u = 1/2 that is the
// nearest integer. With u random, uniform in [0, 1), it is t on average: stochastic rounding. u has
// 16 random bits, a function of seed, step and element; `rotation`, in units of 2^-16, is added to
// them and wraps around, so that ranks with different rotations err in different directions (Suresh
// et al. 2022).
struct Dither {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint16_t rotation = 0;
  bool nearest = false;
};

// Multiples of N / s_k, where N bounds all magnitudes and s_1 < s_2 < ... are the levels of the
// scales. A code is q + s_1 for an integer q in [-s_1, s_1].
struct Lattice {
  std::uint32_t levels = 1;  // s_1
  std::size_t scales = 1;
  std::array<float, kMostScales> inverse{};  // s_k / N, or all 0: everything is 0
};

// The largest bits of |x|; 0 for none. Above all numbers: infinity, then NaN.
std::uint32_t highest_magnitude(Floats values);

// Which elements of a tile can be told in a finer scale: bit i % 64 of word (k - 2) kFitWords +
// i / 64 is set if |x_i| s_k / N <= s_1, for k = 2 ... scales. Bits beyond the tile are set.
void find_fits(Floats tile, const Lattice& lattice, std::uint64_t* fits);

// kTile codes of tile number `number`, zeros beyond its end. Each element is rounded in the finest
// scale whose bit is set; `fits` is not read if there is one scale.
void quantize(Floats tile, std::uint64_t number, const Lattice& lattice, const std::uint64_t* fits,
              const Dither& dither, std::uint32_t* codes);

// x_i = (codes_i - zero) steps[k], k the finest scale whose bit is set.
void dequantize(const std::uint32_t* codes, std::uint32_t zero,
                const std::array<float, kMostScales>& steps, std::size_t scales,
                const std::uint64_t* fits, MutFloats tile);

}  // namespace thinwire::kernel
