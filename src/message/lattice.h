// A vector in a few bits per element, for a reader who has one like it. Elements become integers k,
// multiples of a step, and only the lowest bits of k are sent; the reader takes the integer with
// these bits that is nearest to its own element. Neither side needs a copy of what the other had.
// Davies et al., "New bounds for distributed mean estimation and variance reduction", 2021.
//
// Each block of kBlock elements has a step of its own. Both sides get the same y = k step, unless
// an element of the writer is more than reach() away from that of the reader: then a check over all
// k of the block tells.
#pragma once

#include <cfloat>

#include "thinwire/types.h"

namespace thinwire::message::lattice {

inline constexpr std::size_t kBlock = 256;
inline constexpr std::size_t kHeadBytes = 6;  // of a block: step and check

// With steps in these bounds neither k nor y can overflow.
inline constexpr float kSmallestStep = FLT_MIN, kLargestStep = 0x1p64f;

// bits: 4 or 8, here and below.
constexpr std::size_t block_bytes(std::size_t numel, unsigned bits) {
  return kHeadBytes + (numel * bits + 7) / 8;
}
constexpr std::size_t blocks(std::size_t numel) { return (numel + kBlock - 1) / kBlock; }
// Of all blocks of a vector. All but the last have whole bytes, so that only its end is rounded.
constexpr std::size_t bytes(std::size_t numel, unsigned bits) {
  return blocks(numel) * kHeadBytes + (numel * bits + 7) / 8;
}

// How far apart two elements may be that the reader gets right.
constexpr double reach(float step, unsigned bits) {
  return static_cast<double>(step) * ((1u << (bits - 1)) - 0.5);
}

// The finest step that may be chosen for these values: 2^-20 of the largest magnitude, so that k
// has at most 21 bits and a float holds it. NaN if one of them is.
float finest_step(Floats values);

// A block, at most kBlock values, with a step of at least finest_step(values) and at most
// kLargestStep. Values become those that balance what the reader gets: 2 value - y, so that the
// mean of both is the value.
void encode(MutFloats values, float step, unsigned bits, MutBytes out);

// The step of a block. WireError unless it is in the bounds above.
float read_step(Bytes block);

// Of a block whose step has been read, y for each element; `own` are the reader's. False if some
// are wrong, which in one of 2^16 such blocks goes unnoticed. Unless it is false, no y is farther
// from the own element than 2^(bits - 1) steps; none is ever infinite.
bool decode(Bytes block, unsigned bits, Floats own, MutFloats out);

}  // namespace thinwire::message::lattice
