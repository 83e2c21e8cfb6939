#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace thinwire::base {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The known answers of philox4x32 with 10 rounds that Random123 publishes. Counter words 0 and 1
// are element and purpose, 2 and 3 the step; the key is the seed.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox(0, 0, 0, Purpose{0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(UINT64_MAX, UINT64_MAX, (std::uint64_t{1} << 48) - 1, Purpose{0xffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x08d3243f6a88, Purpose{0x85a3}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DiffersInEveryArgument) {
  std::set<Block> seen;
  std::size_t drawn = 0;
  const auto draw = [&](std::uint64_t seed, std::uint64_t step, std::uint64_t element,
                        int purpose) {
    seen.insert(philox(seed, step, element, static_cast<Purpose>(purpose)));
    ++drawn;
  };
  for (std::uint64_t high : {0ull, 1ull << 16, 1ull << 32, 1ull << 40}) {
    for (std::uint64_t i = 1; i < 8; ++i) {
      draw(high + i, 0, 0, 0);
      draw(0, high + i, 0, 0);
      draw(0, 0, high + i, 0);
    }
  }
  for (int purpose = 0; purpose < 100; ++purpose) draw(0, 0, 0, purpose);
  EXPECT_EQ(seen.size(), drawn);
}

TEST(Philox, IsAFunctionOfItsArguments) {
  EXPECT_EQ(philox(1, 2, 3, Purpose::test), philox(1, 2, 3, Purpose::test));
}

// The values determine the random numbers of a run.
TEST(Purpose, IsNeverRenumbered) {
  EXPECT_EQ(static_cast<int>(Purpose::test), 0);
  EXPECT_EQ(static_cast<int>(Purpose::bench), 1);
  EXPECT_EQ(static_cast<int>(Purpose::fault), 2);
}

TEST(UnitFloat, IsExactAndBelowOne) {
  EXPECT_EQ(unit_float(0), 0.0f);
  EXPECT_EQ(unit_float(0xff), 0.0f);
  EXPECT_EQ(unit_float(0x100), 0x1.0p-24f);
  EXPECT_EQ(unit_float(0x80000000), 0.5f);
  EXPECT_EQ(unit_float(UINT32_MAX), 1.0f - 0x1.0p-24f);
  EXPECT_LT(unit_float(UINT32_MAX), 1.0f);
  for (std::uint32_t bits = 0; bits < 0xffff0000u; bits += 65'521) {
    ASSERT_EQ(static_cast<double>(unit_float(bits)), static_cast<double>(bits >> 8) / (1 << 24));
  }
}

TEST(UnitFloat, SpreadsEvenly) {
  double sum = 0;
  for (std::uint64_t i = 0; i < 25'000; ++i) {
    for (const std::uint32_t bits : philox(7, 0, i, Purpose::test)) sum += unit_float(bits);
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.004);  // four standard deviations
}

}  // namespace
}  // namespace thinwire::base
