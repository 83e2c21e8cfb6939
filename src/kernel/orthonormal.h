// Orthonormal vectors for PowerSGD. Every rank computes them by itself from the same floats and
// must get the same bits, so the code uses doubles, a fixed order of operations and no SIMD.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/types.h"

namespace thinwire::kernel {

// Says which random numbers to use, from `element` on. It must be the same on every rank.
struct Draw {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t element = 0;
};

double squared_norm(Floats values);

// Makes vectors orthonormal without changing their span, up to rounding. `vectors` holds fewer than
// `length` vectors of `length` elements, one after the other. A vector that is 0, or that is
// linearly dependent on earlier ones up to rounding, is replaced by a random one; the function
// returns how many were replaced. Vector i uses the random numbers from `spare.element` + i *
// length on. `scratch` must be as long as `vectors`.
std::size_t orthonormalize(MutFloats vectors, std::size_t length, const Draw& spare,
                           std::span<double> scratch);

// Multiplies each vector by the power of two that brings its norm near 1, so that products with it
// stay in the range of floats. A vector that is 0 or not finite is replaced by a random one.
void rescale(MutFloats vectors, std::size_t length, const Draw& spare);

}  // namespace thinwire::kernel
