#include <algorithm>
#include <bit>

#include "kernel/finite.h"

namespace thinwire::kernel {

bool all_finite(Floats values) {
  // The exponent bits of infinities and NaN are all ones. Values are tested in blocks, so that the
  // inner loop has no exit and the compiler vectorizes it.
  constexpr std::uint32_t kExponent = 0x7f800000;
  constexpr std::size_t kBlock = 4096;
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t end = std::min(values.size(), begin + kBlock);
    std::uint32_t found = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values[i]);
      found |= (bits & kExponent) == kExponent ? 1u : 0u;
    }
    if (found != 0) return false;
  }
  return true;
}

}  // namespace thinwire::kernel
