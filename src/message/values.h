// The values of sparse and shard messages as bytes. bf16 is the upper half of a float.
#pragma once

#include <bit>
#include <cstring>

#include "message/int5.h"
#include "message/sparse_message.h"

namespace thinwire::message {

// Returns the bytes of one value. int5 has no such number.
constexpr std::size_t value_bytes(ValueCoding coding) {
  return coding == ValueCoding::bf16 ? 2 : 4;
}

// Returns the bytes of `count` values.
constexpr std::uint64_t values_bytes(ValueCoding coding, std::uint64_t count) {
  return coding == ValueCoding::int5 ? int5::bytes(count) : count * value_bytes(coding);
}

// Writes the values to `out`, which must have room for values_bytes(coding, values.size()). The
// values must have gone through round_to_wire.
inline void store_values(ValueCoding coding, Floats values, std::byte* out) {
  if (coding == ValueCoding::int5) return int5::store(values, out);
  if (coding == ValueCoding::fp32) {
    if (!values.empty()) std::memcpy(out, values.data(), values.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {  // the lower half is 0 after rounding
    const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(values[i]) >> 16);
    std::memcpy(out + 2 * i, &upper, sizeof upper);
  }
}

// Returns value number i of an array that store_values wrote, not of int5.
inline float load_value(ValueCoding coding, const std::byte* values, std::size_t i) {
  if (coding == ValueCoding::fp32) {
    float value;
    std::memcpy(&value, values + 4 * i, sizeof value);
    return value;
  }
  std::uint16_t upper;
  std::memcpy(&upper, values + 2 * i, sizeof upper);
  return std::bit_cast<float>(static_cast<std::uint32_t>(upper) << 16);
}

}  // namespace thinwire::message
