// Rounds values to a lattice that all workers share, and back, in SIMD code. The results have the
// same bits on every CPU as those of kernel/quantize_reference.h.
#pragma once

#include <array>
#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::kernel {

// How many elements are rounded and packed together. Tile t of a vector begins at element 256 t;
// the last tile may be shorter.
inline constexpr std::size_t kTile = 256;
inline constexpr std::size_t kMostScales = 4;
inline constexpr std::size_t kFitWords = kTile / 64;  // words of a mask, one bit per element

// How a number t is rounded: to floor(t) + floor(t - floor(t) + u). With u = 1/2 this is the
// nearest integer. With a random u, uniform in [0, 1), the result is t on average (stochastic
// rounding). u has 16 random bits, which are a function of seed, step and element. `rotation`, in
// units of 2^-16, is added to u modulo 1, so that the errors of ranks with different rotations
// differ in sign (Suresh et al. 2022).
struct Dither {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint16_t rotation = 0;
  bool nearest = false;
};

// The multiples of N / s_k, where N is a bound of all magnitudes and s_1 < s_2 < ... are the levels
// of the scales. A code is q + s_1 for an integer q in [-s_1, s_1].
struct Lattice {
  std::uint32_t levels = 1;  // s_1
  std::size_t scales = 1;
  std::array<float, kMostScales> inverse{};  // s_k / N; all 0 if every value is 0
};

// Returns the largest bits of |x|, or 0 if there are no values. Infinity is above all finite
// numbers, and NaN is above infinity.
std::uint32_t highest_magnitude(Floats values);

// Finds the elements of a tile that can be represented in a finer scale: bit i % 64 of word (k - 2)
// kFitWords + i / 64 is set if |x_i| s_k / N <= s_1, for k = 2 ... scales. Bits beyond the end of
// the tile are set.
void find_fits(Floats tile, const Lattice& lattice, std::uint64_t* fits);

// Computes the kTile codes of the tile with this number; elements beyond its end count as 0. Each
// element is rounded in the finest scale whose bit is set; `fits` is not read if there is only one
// scale.
void quantize(Floats tile, std::uint64_t number, const Lattice& lattice, const std::uint64_t* fits,
              const Dither& dither, std::uint32_t* codes);

// Sets x_i to (codes_i - zero) steps[k], where k is the finest scale whose bit is set.
void dequantize(const std::uint32_t* codes, std::uint32_t zero,
                const std::array<float, kMostScales>& steps, std::size_t scales,
                const std::uint64_t* fits, MutFloats tile);

}  // namespace thinwire::kernel
