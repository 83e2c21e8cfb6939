// Values of sparse messages in 5 bits: a sign and one of 16 magnitudes. Each block of 256 values has
// a scale of its own, which says where its magnitudes begin and how far apart they are. They are
// floating-point numbers of few bits, so that small values keep their relative precision.
// docs/wire-format.md specifies every bit. All functions may be called from any thread.
#pragma once

#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::message::int5 {

inline constexpr std::size_t kBlockValues = 256;
inline constexpr std::size_t kScaleBytes = 2;
inline constexpr unsigned kCodeBits = 5;

// Returns the bytes of `count` values with their scales.
constexpr std::uint64_t bytes(std::uint64_t count) {
  const auto block = [](std::uint64_t values) {
    return values == 0 ? 0 : kScaleBytes + (values * kCodeBits + 7) / 8;
  };
  return count / kBlockValues * block(kBlockValues) + block(count % kBlockValues);
}

// Rounds values[i] to what a receiver will see, to nearest within its block, never to 0. errors[i]
// becomes the difference, which is exact. 0 becomes the smallest magnitude of its block, and makes
// the others coarse: drop zeros before. All values of a block with a value that is not finite become
// infinite, without error.
void round(MutFloats values, MutFloats errors);

// Writes bytes(values.size()) bytes. The values must have gone through round(), all together and in
// this order.
void store(Floats values, std::byte* out);

// Throws WireError unless `in`, which has bytes(count) bytes, is what store() may have written.
void check(Bytes in, std::size_t count);

// Reads values that have passed check().
void load(const std::byte* in, MutFloats values);

}  // namespace thinwire::message::int5
