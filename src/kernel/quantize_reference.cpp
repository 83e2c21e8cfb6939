#include "kernel/quantize_reference.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "kernel/bitpack.h"
#include "kernel/magnitude.h"

namespace thinwire::kernel::reference {
namespace {

// Returns the finest scale, counted from 0, in which all ranks can represent element i.
std::size_t scale_of(std::size_t i, std::size_t scales, const std::uint64_t* fits) {
  std::size_t out = 0;
  for (std::size_t k = 1; k < scales; ++k) {
    if ((fits[(k - 1) * kFitWords + i / 64] >> i % 64 & 1) != 0) out = k;
  }
  return out;
}

}  // namespace

// 64 elements share eight blocks of four words of two halves. Half h of word w of block b belongs
// to element 32 h + 8 w + b, the order in which vectors of eight lanes produce them.
std::uint32_t threshold(const Dither& dither, std::uint64_t element) {
  if (dither.nearest) return 0x8000;
  const std::uint64_t place = element % 64;
  const std::uint64_t block = element / 64 * 8 + place % 8;
  const std::uint32_t word =
      base::philox(dither.seed, dither.step, block, base::Purpose::rounding)[place / 8 % 4];
  const std::uint32_t bits = place < 32 ? word & 0xffff : word >> 16;
  return (bits + dither.rotation) & 0xffff;
}

std::uint32_t highest_magnitude(Floats values) {
  std::uint32_t out = 0;
  for (const float value : values) out = std::max(out, magnitude(value));
  return out;
}

void find_fits(Floats tile, const Lattice& lattice, std::uint64_t* fits) {
  std::fill_n(fits, (lattice.scales - 1) * kFitWords, ~std::uint64_t{0});
  for (std::size_t k = 1; k < lattice.scales; ++k) {
    for (std::size_t i = 0; i < tile.size(); ++i) {
      if (std::fabs(tile[i]) * lattice.inverse[k] <= static_cast<float>(lattice.levels)) continue;
      fits[(k - 1) * kFitWords + i / 64] &= ~(std::uint64_t{1} << i % 64);
    }
  }
}

void quantize(Floats tile, std::uint64_t number, const Lattice& lattice, const std::uint64_t* fits,
              const Dither& dither, std::uint32_t* codes) {
  const auto levels = static_cast<float>(lattice.levels);
  for (std::size_t i = 0; i < kTile; ++i) {
    const float x = i < tile.size() ? tile[i] : 0;
    const std::uint32_t bits = threshold(dither, number * kTile + i);
    // The random u is centred, so that it is 1/2 on average. Rounding to nearest needs exactly 1/2.
    const float u = (static_cast<float>(bits) + (dither.nearest ? 0.0f : 0.5f)) * 0x1.0p-16f;
    const float scaled = x * lattice.inverse[scale_of(i, lattice.scales, fits)];
    const float below = std::floor(scaled);
    const float up = std::floor((scaled - below) + u);
    const float rounded = std::min(std::max(below + up, -levels), levels);
    codes[i] = static_cast<std::uint32_t>(static_cast<std::int32_t>(rounded) +
                                          static_cast<std::int32_t>(lattice.levels));
  }
}

void dequantize(const std::uint32_t* codes, std::uint32_t zero,
                const std::array<float, kMostScales>& steps, std::size_t scales,
                const std::uint64_t* fits, MutFloats tile) {
  for (std::size_t i = 0; i < tile.size(); ++i) {
    const auto steps_away = static_cast<std::int32_t>(codes[i] - zero);
    tile[i] = static_cast<float>(steps_away) * steps[scale_of(i, scales, fits)];
  }
}

void pack(const std::uint32_t* codes, unsigned width, std::uint32_t* words) {
  std::fill_n(words, packed_words(width), 0);
  for (std::size_t i = 0; i < kTile; ++i) {
    for (unsigned bit = 0; bit < width; ++bit) {
      const std::size_t at = i / 8 * width + bit;  // the position in the bits of column i % 8
      words[at / 32 * 8 + i % 8] |= (codes[i] >> bit & 1) << at % 32;
    }
  }
}

void unpack(const std::uint32_t* words, unsigned width, std::uint32_t* codes) {
  for (std::size_t i = 0; i < kTile; ++i) {
    codes[i] = 0;
    for (unsigned bit = 0; bit < width; ++bit) {
      const std::size_t at = i / 8 * width + bit;
      codes[i] |= (words[at / 32 * 8 + i % 8] >> at % 32 & 1) << bit;
    }
  }
}

}  // namespace thinwire::kernel::reference
