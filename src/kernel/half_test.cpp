#include "kernel/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kernel/half_reference.h"
#include "testing/cpu_targets.h"

namespace thinwire::kernel {
namespace {

using reference::to_bf16;
using reference::to_float;
using reference::to_fp16;

// Returns floats of every kind: all exponents, ties, subnormals, infinities, NaN.
std::vector<float> floats(std::size_t count) {
  std::vector<float> out;
  for (std::uint64_t i = 0; out.size() < count; ++i) {
    for (const std::uint32_t bits : base::philox(1, 0, i, base::Purpose::test)) {
      out.push_back(std::bit_cast<float>(bits));
      out.push_back(std::bit_cast<float>((bits & 0xf0ffe000) | 0x38001000));  // ties of fp16
      out.push_back(std::bit_cast<float>((bits & 0xffff0000) | 0x00008000));  // ties of bf16
    }
  }
  out.resize(count);
  return out;
}

TEST(Half, EveryBitPatternSurvivesARoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const Fp16 half{static_cast<std::uint16_t>(bits)};
    const Bf16 brain{static_cast<std::uint16_t>(bits)};
    if (!std::isnan(to_float(half))) {
      EXPECT_EQ(to_fp16(to_float(half)).bits, bits);
    }
    if (!std::isnan(to_float(brain))) {
      EXPECT_EQ(to_bf16(to_float(brain)).bits, bits);
    }
    EXPECT_EQ(std::isnan(to_float(half)), (bits & 0x7fff) > 0x7c00);
    EXPECT_EQ(std::isnan(to_float(to_bf16(to_float(brain)))), std::isnan(to_float(brain)));
  }
}

TEST(Half, RoundsToTheNearest) {
  for (const float value : floats(100'000)) {
    if (!std::isfinite(value) || std::fabs(value) > 65'504) continue;
    const double error = std::fabs(static_cast<double>(to_float(to_fp16(value))) - value);
    const double spacing = std::max(std::ldexp(1.0, std::ilogb(value) - 10), 0x1.0p-24);
    EXPECT_LE(error, value == 0 ? 0 : spacing / 2) << value;
  }
  EXPECT_TRUE(std::isinf(to_float(to_fp16(65'520))));
  EXPECT_EQ(to_float(to_fp16(65'519)), 65'504);
  EXPECT_EQ(to_float(to_bf16(1 + 0x1.0p-8f)), 1);  // a tie goes to the even neighbour
  EXPECT_EQ(to_float(to_bf16(1 + 0x1.8p-7f)), 1 + 0x1.0p-6f);
}

template <class Half>
class HalfKernel : public testing::Test {};
using Formats = testing::Types<Bf16, Fp16>;
TYPED_TEST_SUITE(HalfKernel, Formats);

template <class Half>
Half rounded(float value) {
  if constexpr (std::is_same_v<Half, Bf16>) return to_bf16(value);
  if constexpr (std::is_same_v<Half, Fp16>) return to_fp16(value);
}

// Checks encode(), decode() and add() on the CPU target in use.
template <class Half>
void expect_reference_results(Floats in, float scale) {
  const std::size_t n = in.size();
  std::vector<Half> coded(n), sum(n);
  encode(in, scale, coded);
  std::vector<float> out(n);
  decode(std::span<const Half>(coded), out);
  const std::vector<Half> other(coded.rbegin(), coded.rend());
  add(std::span<const Half>(coded), std::span<const Half>(other), sum);
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_EQ(coded[i].bits, rounded<Half>(in[i] * scale).bits) << in[i];
    ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]),
              std::bit_cast<std::uint32_t>(to_float(coded[i])));
    const Half expected = rounded<Half>(to_float(coded[i]) + to_float(other[i]));
    if (!std::isnan(to_float(expected))) {
      ASSERT_EQ(sum[i].bits, expected.bits);
    }
    ASSERT_EQ(std::isnan(to_float(sum[i])), std::isnan(to_float(expected)));
  }
}

TYPED_TEST(HalfKernel, MatchesTheReferenceOnEveryTarget) {
  on_every_target([] {
    for (std::size_t n : {0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 70, 255, 256, 257, 4097, 50'000}) {
      const std::vector<float> in = floats(n + 1);
      expect_reference_results<TypeParam>(Floats(in).subspan(1), 0.25f);  // not aligned
    }
  });
}

TYPED_TEST(HalfKernel, DecodesEveryPatternOnEveryTarget) {
  std::vector<TypeParam> in(65536);
  for (std::size_t i = 0; i < in.size(); ++i) in[i].bits = static_cast<std::uint16_t>(i);
  on_every_target([&] {
    std::vector<float> out(in.size());
    decode(std::span<const TypeParam>(in), out);
    for (std::size_t i = 0; i < in.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(to_float(in[i])))
          << i;
    }
  });
}

// Tests every number of the format, the midpoint to its neighbour, and the floats next to both.
TYPED_TEST(HalfKernel, RoundsAtEveryBoundaryOnEveryTarget) {
  std::vector<float> in;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const TypeParam below{static_cast<std::uint16_t>(bits)};
    const TypeParam above{static_cast<std::uint16_t>(bits + 1)};
    const double middle = (static_cast<double>(to_float(below)) + to_float(above)) / 2;
    for (const float value : {to_float(below), static_cast<float>(middle)}) {
      const auto pattern = std::bit_cast<std::uint32_t>(value);
      for (const std::uint32_t near : {pattern - 1, pattern, pattern + 1}) {
        in.push_back(std::bit_cast<float>(near));
      }
    }
  }
  on_every_target([&] { expect_reference_results<TypeParam>(in, 1); });
}

}  // namespace
}  // namespace thinwire::kernel
