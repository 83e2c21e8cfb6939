// The order of entries: by the bits of |x|, equal ones by index.
#pragma once

#include <bit>
#include <cstdint>

namespace thinwire::kernel {

inline constexpr std::uint32_t kMagnitudeMask = 0x7fffffff;

// The bits of |x|. As integers they are in the order of |x|, with NaN above infinity.
inline std::uint32_t magnitude(float x) noexcept {
  return std::bit_cast<std::uint32_t>(x) & kMagnitudeMask;
}

}  // namespace thinwire::kernel
