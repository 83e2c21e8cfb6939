#include "kernel/half_reference.h"

#include <bit>
#include <cmath>

namespace thinwire::kernel::reference {

float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // A NaN must not be rounded to infinity: it keeps its upper bits and gets the quiet one.
  if ((bits & 0x7fffffff) > 0x7f800000) return {static_cast<std::uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

float to_float(Fp16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000) << 16;
  const std::uint32_t exponent = value.bits >> 10 & 0x1f;
  const std::uint32_t fraction = value.bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1.0p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) {
    const std::uint32_t quiet = fraction != 0 ? 0x400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13 | quiet);
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

Fp16 to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  const auto with_sign = [&](std::uint32_t half) {
    return Fp16{static_cast<std::uint16_t>(sign | half)};
  };
  if (magnitude > 0x7f800000) return with_sign(0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return with_sign(0x7c00);  // 65520 and more round to infinity
  if (magnitude < 0x38800000) {                           // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1.0p24f;
    return with_sign(static_cast<std::uint32_t>(std::nearbyint(scaled)));
  }
  const std::uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return with_sign((rounded >> 13) - (112u << 10));
}

}  // namespace thinwire::kernel::reference
