#include "message/int5.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "thinwire/error.h"

namespace thinwire::message::int5 {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

struct Rounded {
  std::vector<float> values, errors;
};
Rounded rounded(std::vector<float> values) {
  Rounded out{std::move(values), {}};
  out.errors.resize(out.values.size());
  round(out.values, out.errors);
  return out;
}

Payload stored(Floats values) {
  Payload out(bytes(values.size()));
  store(values, out.data());
  return out;
}

std::vector<float> loaded(const Payload& in, std::size_t count) {
  check(in, count);
  std::vector<float> out(count);
  load(in.data(), out);
  return out;
}

TEST(Int5, TakesFiveBitsPerValueAndTwoBytesPerBlock) {
  EXPECT_EQ(bytes(0), 0u);
  EXPECT_EQ(bytes(1), 3u);
  EXPECT_EQ(bytes(8), 7u);
  EXPECT_EQ(bytes(256), 162u);
  EXPECT_EQ(bytes(257), 165u);
}

TEST(Int5, RoundsToAsManyBitsAsTheRangeOfTheBlockLeaves) {
  // Within two powers of two: 3 bits behind the leading one.
  EXPECT_EQ(rounded({1.0f, 1.07f, -1.3f, 3.9f}).values,
            (std::vector<float>{1.0f, 1.125f, -1.25f, 3.75f}));
  // Within four: 2 bits.
  EXPECT_EQ(rounded({1.0f, 1.07f, -1.3f, 15.9f}).values,
            (std::vector<float>{1.0f, 1.0f, -1.25f, 14.0f}));
  // Ties go to even.
  EXPECT_EQ(rounded({1.0625f, 1.1875f}).values, (std::vector<float>{1.0f, 1.25f}));
  // Far apart: powers of two alone, here every 8th.
  EXPECT_EQ(rounded({1.9f, 0x1.8p100f}).values, (std::vector<float>{1.0f, 0x1.0p104f}));
}

TEST(Int5, EachBlockHasItsOwnScale) {
  std::vector<float> values(300, 1.125f);
  values[299] = 1e-30f;
  const Rounded out = rounded(values);
  for (std::size_t i = 0; i < 256; ++i) ASSERT_EQ(out.values[i], 1.125f);
  EXPECT_EQ(out.values[256], 1.0f);
}

TEST(Int5, AValueThatIsNotFiniteMakesItsBlockInfinite) {
  std::vector<float> values(300, 1.5f);
  values[7] = std::numeric_limits<float>::quiet_NaN();
  values[8] = -2;
  const Rounded out = rounded(values);
  EXPECT_EQ(out.values[7], std::numeric_limits<float>::infinity());
  EXPECT_EQ(out.values[8], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(out.errors[8], 0);
  EXPECT_EQ(out.values[256], 1.5f);
  EXPECT_EQ(loaded(stored(out.values), 300), out.values);
}

// Values at random, or all within a few powers of two, as the picks of a step are.
std::vector<float> any_values() {
  const auto count = *rc::gen::inRange<std::size_t>(0, 600);
  const auto exponents = *rc::gen::element(1u, 2u, 3u, 5u, 9u, 20u, 60u, 254u);
  const auto lowest = *rc::gen::inRange(0u, 255u - exponents + 1);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i) {
    const auto random = base::philox(seed, 0, i, base::Purpose::test);
    const std::uint32_t exponent = lowest + random[0] % exponents;
    out.push_back(from_bits((random[1] & 0x807fffff) | exponent << 23));
  }
  return out;
}

RC_GTEST_PROP(Int5Property, RoundingLosesNothingAndIsWhatArrives, ()) {
  const std::vector<float> before = any_values();
  const Rounded after = rounded(before);
  for (std::size_t i = 0; i < before.size(); ++i) {
    // Exact in the reals, too: as doubles these sums are not rounded.
    RC_ASSERT(double{after.values[i]} + double{after.errors[i]} == double{before[i]});
    RC_ASSERT(after.values[i] + after.errors[i] == before[i]);
    RC_ASSERT(std::isfinite(after.values[i]) && after.values[i] != 0);
    RC_ASSERT(std::signbit(before[i]) == std::signbit(after.values[i]));
  }
  RC_ASSERT(loaded(stored(after.values), before.size()) == after.values);
  RC_ASSERT(rounded(after.values).values == after.values);
}

TEST(Int5, AnythingButItsOwnBytesIsRefused) {
  const Rounded values = rounded({1.0f, 1.5f, -3.0f});  // 15 bits of codes, one of padding
  const Payload good = stored(values.values);
  const auto refused = [&](std::size_t at, std::uint8_t value) {
    Payload damaged = good;
    damaged[at] = std::byte{value};
    EXPECT_THROW(check(damaged, 3), WireError) << at << ": " << int{value};
  };
  check(good, 3);
  refused(0, 0);    // an exponent that no scale has
  refused(0, 255);  // infinite magnitudes have code 0 alone
  refused(1, 8);    // a form that is not known
  refused(3, 0xff);
  Payload largest = good;
  largest[0] = std::byte{254};
  EXPECT_THROW(check(largest, 3), WireError) << "codes beyond the largest float";
}

}  // namespace
}  // namespace thinwire::message::int5
