// The order of entries in selections: by the bits of |x|; equal entries by index.
#pragma once

#include <bit>
#include <cstdint>

namespace thinwire::kernel {

inline constexpr std::uint32_t kMagnitudeMask = 0x7fffffff;

// Returns the bits of |x|. As integers they are ordered as |x| is, with NaN above infinity.
inline std::uint32_t magnitude(float x) noexcept {
  return std::bit_cast<std::uint32_t>(x) & kMagnitudeMask;
}

}  // namespace thinwire::kernel
