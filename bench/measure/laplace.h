// Gradients for benchmarks of selection.
#pragma once

#include <cmath>

#include "base/random.h"
#include "thinwire/types.h"

namespace thinwire::measure {

// Laplace-distributed with scale 1, as the gradients of a layer nearly are; new ones for each step.
inline void fill_laplace(MutFloats out, std::uint64_t seed, std::uint64_t step) {
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const auto bits = base::philox(seed, step, i / 4, base::Purpose::bench);
    for (std::size_t j = 0; j < 4 && i + j < out.size(); ++j) {
      const float magnitude = -std::log(base::unit_float(bits[j]) + 0x1.0p-25f);
      out[i + j] = (bits[j] & 1) != 0 ? magnitude : -magnitude;  // a bit that unit_float drops
    }
  }
}

}  // namespace thinwire::measure
