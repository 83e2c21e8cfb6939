#include "message/int5.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "thinwire/error.h"

namespace thinwire::message::int5 {
namespace {

constexpr std::uint32_t kMagnitudeBits = 0x7fffffff;
constexpr unsigned kMantissaBits = 23;
constexpr std::uint32_t kInfiniteExponent = 255;
constexpr std::uint32_t kMostCode = 15;
constexpr std::uint8_t kForms = 8;
constexpr std::uint8_t kFirstStride = 4;  // the first form without mantissa bits and with a stride

// The magnitudes of a block. The forms 0 to 3 have 3 to 0 mantissa bits behind the leading one, and
// the rest of a code counts powers of two. With the forms 4 to 7 codes count every 2nd, 4th, 8th or
// 16th power of two: no finite value is out of reach.
struct Scale {
  std::uint8_t exponent = 1;  // of the smallest magnitude, biased as in a float; 255: all infinite
  std::uint8_t form = 0;

  bool infinite() const { return exponent == kInfiniteExponent; }
  unsigned mantissa() const { return form < kFirstStride ? kFirstStride - 1u - form : 0; }
  unsigned stride() const { return form < kFirstStride ? 1u : 2u << (form - kFirstStride); }
  // Returns the bits of the float with this code, without its sign.
  std::uint32_t magnitude(std::uint32_t code) const {
    if (infinite()) return kInfiniteExponent << kMantissaBits;
    const unsigned m = mantissa();
    const std::uint32_t low = code & ((1u << m) - 1);
    return (exponent + (code >> m) * stride()) << kMantissaBits | low << (kMantissaBits - m);
  }
  // Returns the largest code of a finite magnitude.
  std::uint32_t most_code() const {
    if (infinite()) return 0;
    const unsigned m = mantissa();
    const std::uint32_t exponents = (kInfiniteExponent - 1 - exponent) / stride();
    return std::min(kMostCode, (exponents << m) + (1u << m) - 1);
  }
};

std::uint32_t magnitude_of(float value) {
  return std::bit_cast<std::uint32_t>(value) & kMagnitudeBits;
}

// Returns the scale with the most mantissa bits that reaches from the smallest to the largest value.
Scale scale_of(Floats block) {
  std::uint32_t lowest = kMagnitudeBits, highest = 0;
  for (const float value : block) {
    lowest = std::min(lowest, magnitude_of(value));
    highest = std::max(highest, magnitude_of(value));
  }
  highest = std::max(highest >> kMantissaBits, 1u);
  if (highest == kInfiniteExponent) return {kInfiniteExponent, 0};
  lowest = std::max(lowest >> kMantissaBits, 1u);
  Scale out{static_cast<std::uint8_t>(lowest), 0};
  while (out.form + 1 < kForms && lowest + (kMostCode >> out.mantissa()) * out.stride() < highest) {
    ++out.form;
  }
  return out;
}

// Returns the code of the magnitude that is nearest, the even one of two.
std::uint32_t round_mantissa(std::uint32_t bits, const Scale& scale) {
  const unsigned cut = kMantissaBits - scale.mantissa();
  const std::uint32_t rounded = (bits + (1u << (cut - 1)) - 1 + (bits >> cut & 1)) >> cut;
  const std::uint32_t first = std::uint32_t{scale.exponent} << scale.mantissa();
  return rounded < first ? 0 : std::min(rounded - first, scale.most_code());
}

// Returns the code of the power of two that is nearest, the smaller one of two.
std::uint32_t round_exponent(std::uint32_t bits, const Scale& scale) {
  const std::uint32_t exponent = bits >> kMantissaBits;
  if (exponent <= scale.exponent) return 0;
  const std::uint32_t most = scale.most_code();
  const std::uint32_t below = std::min((exponent - scale.exponent) / scale.stride(), most);
  if (below == most) return below;
  const auto number = [](std::uint32_t magnitude) { return double{std::bit_cast<float>(magnitude)}; };
  const double middle = (number(scale.magnitude(below)) + number(scale.magnitude(below + 1))) / 2;
  return number(bits) > middle ? below + 1 : below;
}

std::uint32_t code_of(float value, const Scale& scale) {
  if (scale.infinite()) return 0;
  const std::uint32_t bits = magnitude_of(value);
  return scale.form < kFirstStride ? round_mantissa(bits, scale) : round_exponent(bits, scale);
}

// Calls visit(begin, size) for every block of `count` values.
template <class Visit>
void for_each_block(std::size_t count, Visit visit) {
  for (std::size_t begin = 0; begin < count; begin += kBlockValues) {
    visit(begin, std::min(kBlockValues, count - begin));
  }
}

// Calls visit(code with sign) for each of `size` codes.
template <class Visit>
void for_each_code(const std::byte* in, std::size_t size, Visit visit) {
  std::uint32_t ready = 0;
  unsigned bits = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (bits < kCodeBits) {
      ready |= std::to_integer<std::uint32_t>(*in++) << bits;
      bits += 8;
    }
    visit(ready & 31u);
    ready >>= kCodeBits;
    bits -= kCodeBits;
  }
}

}  // namespace

void round(MutFloats values, MutFloats errors) {
  for_each_block(values.size(), [&](std::size_t begin, std::size_t size) {
    const Scale scale = scale_of(values.subspan(begin, size));
    for (std::size_t i = begin; i < begin + size; ++i) {
      const float magnitude = std::bit_cast<float>(scale.magnitude(code_of(values[i], scale)));
      const float sent = std::copysign(magnitude, values[i]);
      errors[i] = scale.infinite() ? 0 : values[i] - sent;
      values[i] = sent;
    }
  });
}

void store(Floats values, std::byte* out) {
  for_each_block(values.size(), [&](std::size_t begin, std::size_t size) {
    const Floats block = values.subspan(begin, size);
    const Scale scale = scale_of(block);
    *out++ = std::byte{scale.exponent};
    *out++ = std::byte{scale.form};
    std::uint32_t pending = 0;
    unsigned bits = 0;
    for (const float value : block) {
      const std::uint32_t sign = std::signbit(value) ? kMostCode + 1 : 0;
      pending |= (code_of(value, scale) | sign) << bits;
      bits += kCodeBits;
      for (; bits >= 8; bits -= 8, pending >>= 8) *out++ = static_cast<std::byte>(pending);
    }
    if (bits > 0) *out++ = static_cast<std::byte>(pending);
  });
}

void check(Bytes in, std::size_t count) {
  const auto refuse = [](const char* reason) {
    throw WireError(std::string("sparse message: ") + reason);
  };
  for_each_block(count, [&](std::size_t, std::size_t size) {
    const Bytes block = in.first(bytes(size));
    in = in.subspan(block.size());
    const Scale scale{std::to_integer<std::uint8_t>(block[0]),
                      std::to_integer<std::uint8_t>(block[1])};
    if (scale.exponent == 0 || scale.form >= kForms || (scale.infinite() && scale.form != 0)) {
      refuse("the scale of a block of values is damaged");
    }
    const std::uint32_t most = scale.most_code();
    bool beyond = false;
    for_each_code(block.data() + kScaleBytes, size,
                  [&](std::uint32_t code) { beyond = beyond || (code & kMostCode) > most; });
    if (beyond) refuse("a value is larger than any float");
    const auto used = static_cast<unsigned>(size * kCodeBits % 8);
    if (used != 0 && std::to_integer<unsigned>(block.back()) >> used != 0) {
      refuse("the padding behind a block of values is not 0");
    }
  });
}

void load(const std::byte* in, MutFloats values) {
  for_each_block(values.size(), [&](std::size_t begin, std::size_t size) {
    const Scale scale{std::to_integer<std::uint8_t>(in[0]), std::to_integer<std::uint8_t>(in[1])};
    std::uint32_t magnitudes[kMostCode + 1];
    for (std::uint32_t code = 0; code <= kMostCode; ++code) {
      magnitudes[code] = scale.magnitude(code);
    }
    float* out = values.data() + begin;
    for_each_code(in + kScaleBytes, size, [&](std::uint32_t code) {
      *out++ = std::bit_cast<float>(magnitudes[code & kMostCode] | (code >> 4) << 31);
    });
    in += bytes(size);
  });
}

}  // namespace thinwire::message::int5
