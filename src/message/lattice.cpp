#include "message/lattice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/bytes.h"
#include "kernel/magnitude.h"

namespace thinwire::message::lattice {
namespace {

using Integers = std::array<std::int32_t, kBlock>;
using Packed = std::array<std::uint8_t, kBlock>;  // packed codes; only the first bytes are used

// Larger than any k of a writer: an element farther away cannot be near one of the writer's.
constexpr double kFarthest = 0x1p30;

// Rounds to the nearest integer, for magnitudes below 2^51: doubles from 2^52 on are integers.
// Compilers vectorize a loop of this on any CPU, but not a loop of std::nearbyint.
double nearest(double value) {
  constexpr double kIntegers = 0x1.8p52;
  return (value + kIntegers) - kIntegers;
}

// The factors are odd and pseudo-random, so that the errors of several wrong k do not cancel in the
// check.
constexpr auto kFactors = [] {
  std::array<std::uint32_t, kBlock> factors{};
  std::uint32_t state = 1;
  for (std::uint32_t& factor : factors) {
    state = state * 1'664'525u + 1'013'904'223u;
    factor = ((state ^ (state >> 15)) * 0x2c1b3c6du) | 1;
  }
  return factors;
}();

// Returns the upper half of the sum: its lower bits depend only on the lower bits of k, which are
// never wrong.
std::uint16_t check_of(const Integers& integers, std::size_t count) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += static_cast<std::uint32_t>(integers[i]) * kFactors[i];
  }
  return static_cast<std::uint16_t>(sum >> 16);
}

// Packs codes, the first one in the lowest bits of a byte. Whole blocks are packed, so that loops
// have a fixed length; codes beyond the last element are 0 and are not sent.
template <unsigned bits>
void pack(const Integers& integers, std::size_t bytes, std::byte* out) {
  constexpr unsigned kMask = (1u << bits) - 1, kPerByte = 8 / bits;
  Packed packed{};
  for (std::size_t byte = 0; byte < kBlock / kPerByte; ++byte) {
    unsigned codes = 0;
    for (unsigned i = 0; i < kPerByte; ++i) {
      codes |= (static_cast<unsigned>(integers[byte * kPerByte + i]) & kMask) << i * bits;
    }
    packed[byte] = static_cast<std::uint8_t>(codes);
  }
  std::memcpy(out, packed.data(), bytes);
}

template <unsigned bits>
void unpack(const std::byte* in, std::size_t bytes, Integers& integers) {
  constexpr unsigned kMask = (1u << bits) - 1, kPerByte = 8 / bits;
  Packed packed{};
  std::memcpy(packed.data(), in, bytes);
  for (std::size_t byte = 0; byte < kBlock / kPerByte; ++byte) {
    for (unsigned i = 0; i < kPerByte; ++i) {
      integers[byte * kPerByte + i] = static_cast<std::int32_t>((packed[byte] >> i * bits) & kMask);
    }
  }
}

}  // namespace

float finest_step(Floats values) {
  std::uint32_t most = 0;
  for (const float value : values) most = std::max(most, kernel::magnitude(value));
  // With this order of arguments std::max() returns NaN if `most` is NaN.
  return std::max(std::bit_cast<float>(most) * 0x1p-20f, kSmallestStep);
}

void encode(MutFloats values, float step, unsigned bits, MutBytes out) {
  const double width = step, inverse = 1 / width;
  Integers integers{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double k = nearest(static_cast<double>(values[i]) * inverse);
    integers[i] = static_cast<std::int32_t>(k);
    const auto decoded = static_cast<float>(k * width);
    values[i] -= decoded - values[i];
  }
  const std::uint16_t check = check_of(integers, values.size());
  std::memcpy(out.data(), &step, sizeof step);
  std::memcpy(out.data() + sizeof step, &check, sizeof check);
  const std::size_t bytes = block_bytes(values.size(), bits) - kHeadBytes;
  (bits == 4 ? pack<4> : pack<8>)(integers, bytes, out.data() + kHeadBytes);
}

float read_step(Bytes block) {
  const auto step = base::ByteReader(block, "coded block").get<float>();
  if (step >= kSmallestStep && step <= kLargestStep) return step;
  throw WireError(fmt::format("coded block: step out of range ({})", step));
}

bool decode(Bytes block, unsigned bits, Floats own, MutFloats out) {
  base::ByteReader reader(block, "coded block");
  const double width = reader.get<float>(), inverse = 1 / width;
  const auto check = reader.get<std::uint16_t>();
  const double period = 1u << bits, per_period = 1 / period;
  const Bytes codes = reader.take(block_bytes(own.size(), bits) - kHeadBytes);
  Integers integers;  // first the codes
  (bits == 4 ? unpack<4> : unpack<8>)(codes.data(), codes.size(), integers);
  std::size_t beyond = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double mine = static_cast<double>(own[i]) * inverse;
    beyond += std::abs(mine) <= kFarthest ? 0 : 1;
    // With this order of arguments std::max() replaces NaN by a number.
    const double at = std::max(-kFarthest, mine);
    const double code = integers[i];
    const double k = code + period * nearest((std::min(kFarthest, at) - code) * per_period);
    integers[i] = static_cast<std::int32_t>(k);
    out[i] = static_cast<float>(k * width);
  }
  return beyond == 0 && check_of(integers, own.size()) == check;
}

}  // namespace thinwire::message::lattice
