// Increasing indices as Rice codes of their gaps, in a stream of 64-bit words.
//
// The gap before index i is i minus the index before it, minus 1 (the first: i itself). Its code
// with parameter r: gap >> r zero bits, a one bit, the r low bits of the gap; bits count from the
// lowest of a word, words are little-endian, what remains of the last word is 0. R. F. Rice, "Some
// practical universal noiseless coding techniques", 1979. For gaps of random positions it is within
// 1 % of the entropy.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/types.h"

namespace thinwire::message::rice {

inline constexpr std::size_t kWordBytes = 8;

// The parameter for `count` of `numel` indices: round(log2(0.69 numel / count)), at least 0, in
// integers so that all machines agree. count <= numel <= 2^32.
unsigned parameter(std::uint64_t numel, std::uint64_t count);

// Words of a stream of `count` codes with `quotients` zero bits in total.
constexpr std::uint64_t words(std::uint64_t count, unsigned r, std::uint64_t quotients) {
  return (quotients + count * (r + 1) + 63) / 64;
}

// The longest stream of any `count` or fewer of numel indices, in words.
std::uint64_t max_words(std::uint64_t numel, std::uint64_t count);

// Words of the stream of these indices, which strictly increase.
std::uint64_t words(std::span<const std::uint32_t> indices, unsigned r);

// `out` is as long as words() says, and kWordBytes longer: scratch for stores of whole words.
void encode(std::span<const std::uint32_t> indices, unsigned r, std::byte* out);

// WireError unless the stream is exactly `count` codes of indices below numel.
void check(Bytes stream, unsigned r, std::uint64_t count, std::uint64_t numel);

// Of a stream that has passed check().
void decode(Bytes stream, unsigned r, std::span<std::uint32_t> indices);

}  // namespace thinwire::message::rice
