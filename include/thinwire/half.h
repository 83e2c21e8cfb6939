// The two 16-bit floating-point formats, as bits on the wire.
#pragma once

#include <cstdint>

namespace thinwire {

struct Bf16 {  // 8 bits of exponent, 7 of fraction: the range of a float, 2 to 3 digits
  std::uint16_t bits = 0;
};
struct Fp16 {  // 5 bits of exponent, 10 of fraction: up to 65504, 3 to 4 digits
  std::uint16_t bits = 0;
};

}  // namespace thinwire
