// Orthonormal vectors for PowerSGD. Every rank makes them for itself from the same floats, so they
// are made in doubles, in one order of operations, without vector code of any CPU.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/types.h"

namespace thinwire::kernel {

// Which random numbers to take, from element `element` on; the same on every rank.
struct Draw {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t element = 0;
};

double squared_norm(Floats values);

// `vectors` holds vectors of `length` elements, one after the other, of which there are fewer than
// `length`. They become orthonormal and span what they did, up to rounding. One that is 0, or
// nothing but the rounding errors of the ones before it, is replaced by a random one: the number of
// these is returned. Vector i draws from element `spare.element` + i * length on. `scratch` has
// room for all.
std::size_t orthonormalize(MutFloats vectors, std::size_t length, const Draw& spare,
                           std::span<double> scratch);

// Multiplies each vector by a power of two that brings its norm near 1, so that no product with it
// leaves the range of floats. One that is 0 or not finite is drawn anew.
void rescale(MutFloats vectors, std::size_t length, const Draw& spare);

}  // namespace thinwire::kernel
