// Packs codes of a few bits without gaps, in SIMD code. kernel/quantize_reference.h specifies the
// bits.
#pragma once

#include <cstdint>

#include "kernel/quantize.h"

namespace thinwire::kernel {

inline constexpr unsigned kWidestCode = 24;  // bits; sums of codes stay exact in a float

// A tile is packed in eight columns, code i in column i % 8: a vector packs eight codes at once.
// The bits of a column follow each other, lowest first, in words c, 8 + c, 16 + c, ...
constexpr std::size_t packed_words(unsigned width) { return kTile / 32 * width; }
constexpr std::size_t packed_bytes(unsigned width) { return packed_words(width) * 4; }

// Pack and unpack kTile codes, each below 2^width, 1 <= width <= kWidestCode.
void pack(const std::uint32_t* codes, unsigned width, std::uint32_t* words);
void unpack(const std::uint32_t* words, unsigned width, std::uint32_t* codes);
// Adds the codes that unpack() would return to `codes`.
void unpack_add(const std::uint32_t* words, unsigned width, std::uint32_t* codes);

}  // namespace thinwire::kernel
