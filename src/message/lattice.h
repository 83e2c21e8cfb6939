// Encodes a vector in a few bits per element for a reader that has a similar vector. An element
// becomes an integer k, a multiple of a step, and only the lowest bits of k are sent; the reader
// takes the integer with these bits that is nearest to its own element. Neither side needs a copy
// of the other's earlier vector. Davies et al., "New bounds for distributed mean estimation and
// variance reduction", 2021.
//
// Each block of kBlock elements has a step of its own. Both sides get the same y = k step, unless
// an element of the writer differs by more than reach() from that of the reader; a check over all k
// of the block detects this.
#pragma once

#include <cfloat>

#include "thinwire/types.h"

namespace thinwire::message::lattice {

inline constexpr std::size_t kBlock = 256;
inline constexpr std::size_t kHeadBytes = 6;  // the header of a block: step and check

// With steps in these bounds neither k nor y can overflow.
inline constexpr float kSmallestStep = FLT_MIN, kLargestStep = 0x1p64f;

// Returns the size of an encoded block. Here and below, `bits` is 4 or 8.
constexpr std::size_t block_bytes(std::size_t numel, unsigned bits) {
  return kHeadBytes + (numel * bits + 7) / 8;
}
constexpr std::size_t blocks(std::size_t numel) { return (numel + kBlock - 1) / kBlock; }
// Returns the size of all blocks of a vector. All blocks but the last fill whole bytes, so that
// only the end is rounded up.
constexpr std::size_t bytes(std::size_t numel, unsigned bits) {
  return blocks(numel) * kHeadBytes + (numel * bits + 7) / 8;
}

// Returns by how much an element of the reader may differ from the writer's and still be decoded
// right.
constexpr double reach(float step, unsigned bits) {
  return static_cast<double>(step) * ((1u << (bits - 1)) - 0.5);
}

// Returns the finest step that may be chosen for these values: 2^-20 of the largest magnitude, so
// that k has at most 21 bits and is exact in a float. Returns NaN if a value is NaN.
float finest_step(Floats values);

// Encodes a block of at most kBlock values, with a step of at least finest_step(values) and at most
// kLargestStep. Each value is replaced by 2 value - y, so that the mean of it and of the reader's y
// is the original value.
void encode(MutFloats values, float step, unsigned bits, MutBytes out);

// Returns the step of a block. Throws WireError unless it is in the bounds above.
float read_step(Bytes block);

// Decodes a block whose step has been read: writes y for each element to `out`. `own` are the
// reader's elements. Returns false if some y are wrong; one of 2^16 such blocks is not detected. If
// it returns true, each y is within 2^(bits - 1) steps of the reader's element. No y is ever
// infinite.
bool decode(Bytes block, unsigned bits, Floats own, MutFloats out);

}  // namespace thinwire::message::lattice
