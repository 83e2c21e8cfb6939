#include "base/random.h"

#include <Random123/philox.h>

namespace thinwire::base {

std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t step, std::uint64_t element,
                                    Purpose purpose) noexcept {
  const auto high_element = static_cast<std::uint32_t>(element >> 32) & 0xffffu;
  const r123::Philox4x32::ctr_type counter{{
      static_cast<std::uint32_t>(element),
      high_element | static_cast<std::uint32_t>(purpose) << 16,
      static_cast<std::uint32_t>(step),
      static_cast<std::uint32_t>(step >> 32),
  }};
  const r123::Philox4x32::key_type key{{
      static_cast<std::uint32_t>(seed),
      static_cast<std::uint32_t>(seed >> 32),
  }};
  const auto block = r123::Philox4x32{}(counter, key);
  return {block[0], block[1], block[2], block[3]};
}

}  // namespace thinwire::base
