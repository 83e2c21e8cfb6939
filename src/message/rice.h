// Encodes increasing indices as Rice codes of their gaps, in a stream of 64-bit words.
//
// The gap of an index is its difference to the previous index, minus 1; the gap of the first index
// is the index itself. The code of a gap with parameter r is gap >> r zero bits, a one bit, and the
// r low bits of the gap. Bits are numbered from the lowest of a word, words are little-endian, and
// the rest of the last word is 0. R. F. Rice, "Some practical universal noiseless coding
// techniques", 1979. For random positions the code is within 1 % of the entropy.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/types.h"

namespace thinwire::message::rice {

inline constexpr std::size_t kWordBytes = 8;

// Returns the parameter for `count` of `numel` indices: round(log2(0.69 numel / count)), at least
// 0. It is computed in integers, so that all machines agree. Requires count <= numel <= 2^32.
unsigned parameter(std::uint64_t numel, std::uint64_t count);

// Returns the number of words of a stream of `count` codes with `quotients` zero bits in total.
constexpr std::uint64_t words(std::uint64_t count, unsigned r, std::uint64_t quotients) {
  return (quotients + count * (r + 1) + 63) / 64;
}

// Returns the number of words of the longest stream of up to `count` of numel indices.
std::uint64_t max_words(std::uint64_t numel, std::uint64_t count);

// Returns the number of words of the stream of these indices, which must strictly increase.
std::uint64_t words(std::span<const std::uint32_t> indices, unsigned r);

// Writes the stream to `out`, which must have room for words() words and kWordBytes more, because
// whole words are stored.
void encode(std::span<const std::uint32_t> indices, unsigned r, std::byte* out);

// Throws WireError unless the stream consists of exactly `count` codes of indices below numel.
void check(Bytes stream, unsigned r, std::uint64_t count, std::uint64_t numel);

// Decodes a stream that has passed check().
void decode(Bytes stream, unsigned r, std::span<std::uint32_t> indices);

}  // namespace thinwire::message::rice
