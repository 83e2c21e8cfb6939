#include "message/lattice.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "testing/expect.h"
#include "thinwire/error.h"

namespace thinwire::message::lattice {
namespace {

constexpr unsigned kBits[] = {4, 8};

std::vector<float> noise(std::size_t count, std::uint64_t seed, float scale = 1) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] =
        scale * (2 * base::unit_float(base::philox(seed, i, 0, base::Purpose::test)[0]) - 1);
  }
  return values;
}

float rounded(float value, float step) {
  const double width = step;
  return static_cast<float>(std::nearbyint(value * (1 / width)) * width);
}

Payload encoded(std::vector<float>& values, float step, unsigned bits) {
  Payload block(block_bytes(values.size(), bits));
  encode(values, step, bits, block);
  return block;
}

TEST(Lattice, CostsItsBitsAndSixBytesPerBlock) {
  EXPECT_EQ(bytes(0, 4), 0u);
  EXPECT_EQ(bytes(1, 4), 7u);
  EXPECT_EQ(bytes(256, 4), 134u);
  EXPECT_EQ(bytes(257, 4), 141u);
  EXPECT_EQ(bytes(1'000'000, 4), 500'000u + 6 * 3907);
  EXPECT_EQ(bytes(1'000'000, 8), 1'000'000u + 6 * 3907);
  EXPECT_EQ(block_bytes(kBlock, 8), 262u);
}

RC_GTEST_PROP(Lattice, GivesTheRoundedValuesToAllWithinReach, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, kBlock + 1);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const float scale = std::ldexp(1.0f, *rc::gen::inRange(-60, 60));
  for (const unsigned bits : kBits) {
    const std::vector<float> values = noise(count, seed, scale);
    const float finest = finest_step(values);
    const float step = finest * std::ldexp(1.0f, *rc::gen::inRange(0, 24));
    std::vector<float> own = noise(count, seed + 1, static_cast<float>(0.999 * reach(step, bits)));
    for (std::size_t i = 0; i < count; ++i) own[i] += values[i];
    std::vector<float> balanced = values, read(count);
    const Payload block = encoded(balanced, step, bits);
    RC_ASSERT(read_step(block) == step);
    RC_ASSERT(decode(block, bits, own, read));
    for (std::size_t i = 0; i < count; ++i) {
      RC_ASSERT(read[i] == rounded(values[i], step));
      const double balance = static_cast<double>(balanced[i]) + static_cast<double>(read[i]);
      const double most = std::max(std::abs(values[i]), std::abs(read[i]));
      RC_ASSERT(std::abs(balance - 2.0 * values[i]) <= 4e-7 * most);
    }
  }
}

// Some elements differ by more than reach(), each in a random direction.
TEST(Lattice, TheCheckNoticesWhatIsBeyondReach) {
  constexpr float kStep = 0.01f;
  constexpr std::uint64_t kTries = 4000;
  for (const unsigned bits : kBits) {
    std::uint64_t unnoticed = 0;
    for (std::uint64_t seed = 0; seed < kTries; ++seed) {
      std::vector<float> values = noise(kBlock, seed), own = values, read(kBlock);
      const std::size_t many = seed % 2 == 0 ? 1 + seed % 5 : kBlock;
      for (std::size_t j = 0; j < many; ++j) {
        const auto random = base::philox(seed, j, 1, base::Purpose::test);
        const auto far = static_cast<float>((1.2 + random[0] % 100) * reach(kStep, bits));
        own[many == kBlock ? j : random[1] % kBlock] += random[2] % 2 == 0 ? far : -far;
      }
      const Payload block = encoded(values, kStep, bits);
      unnoticed += decode(block, bits, own, read) ? 1 : 0;
      for (std::size_t i = 0; i < kBlock; ++i) {
        ASSERT_LE(std::abs(read[i] - own[i]),
                  kStep * static_cast<float>(1u << (bits - 1)) * 1.001f);
      }
    }
    EXPECT_LE(unnoticed, 2u) << bits << " bits";
  }
}

// The errors of two elements are opposite, so that a plain sum over the block would not show them.
TEST(Lattice, OppositeMistakesDoNotCancelEachOther) {
  for (std::size_t other = 1; other < kBlock; ++other) {
    std::vector<float> values(kBlock), own(kBlock), read(kBlock);
    own[0] = 0.16f;
    own[other] = -0.16f;
    EXPECT_FALSE(decode(encoded(values, 0.01f, 4), 4, own, read)) << other;
  }
}

TEST(Lattice, AnyOwnValuesAndAnyCodesGiveFiniteOnes) {
  constexpr float kLimits[] = {
      std::numeric_limits<float>::quiet_NaN(),  std::numeric_limits<float>::infinity(),
      -std::numeric_limits<float>::infinity(),  std::numeric_limits<float>::max(),
      std::numeric_limits<float>::denorm_min(), -0.0f};
  for (const float step : {kSmallestStep, 1.0f, kLargestStep}) {
    for (const unsigned bits : kBits) {
      Payload block(block_bytes(std::size(kLimits), bits), std::byte{0xa7});
      std::memcpy(block.data(), &step, sizeof step);
      std::vector<float> read(std::size(kLimits));
      decode(block, bits, kLimits, read);
      for (const float value : read) EXPECT_TRUE(std::isfinite(value)) << step;
    }
  }
}

TEST(Lattice, EqualOrTinyValuesHaveValidSteps) {
  for (const float value : {0.0f, 1e-44f, 1e-30f, -3.0f, 1e20f}) {
    std::vector<float> values(40, value), read(40);
    const float step = finest_step(values);
    EXPECT_GE(step, kSmallestStep);
    const std::vector<float> own = values;
    EXPECT_TRUE(decode(encoded(values, step, 4), 4, own, read));
    for (const float got : read) EXPECT_LE(std::abs(got - value), step);
  }
  EXPECT_TRUE(std::isnan(finest_step(std::vector{1.0f, std::nanf(""), 2.0f})));
}

TEST(Lattice, RefusesInvalidSteps) {
  Payload block(block_bytes(8, 4));
  for (const float step : {0.0f, -1.0f, std::nanf(""), HUGE_VALF, kSmallestStep / 2, 1e30f}) {
    std::memcpy(block.data(), &step, sizeof step);
    const auto refusal = test::must_throw<WireError>([&] { read_step(block); });
    EXPECT_TRUE(test::has(refusal.what(), "coded block: step out of range")) << refusal.what();
  }
  EXPECT_THROW(read_step(Bytes(block).first(3)), WireError);
}

}  // namespace
}  // namespace thinwire::message::lattice
