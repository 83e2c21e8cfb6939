#include "base/number.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace thinwire::base {
namespace {

TEST(ParseNumber, TakesTheWholeText) {
  EXPECT_EQ(parse_number<int>("42"), 42);
  EXPECT_EQ(parse_number<int>("-7"), -7);
  EXPECT_EQ(parse_number<int>("007"), 7);
  EXPECT_EQ(parse_number<double>("1e-3"), 1e-3);
  EXPECT_EQ(parse_number<double>("0.25"), 0.25);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "x1", "0x10", "1,5", "-", "1.5"}) {
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  }
  for (const char* text : {"", " 1", "1 ", "+1", "1e", "1.5.2", "."}) {
    EXPECT_EQ(parse_number<double>(text), std::nullopt) << text;
  }
}

TEST(ParseNumber, RefusesNumbersThatDoNotFit) {
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551615"),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint64_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(parse_number<double>("1e999"), std::nullopt);
}

TEST(ParseNumber, LeavesInfinityAndNanToTheCaller) {
  EXPECT_EQ(parse_number<double>("inf"), std::numeric_limits<double>::infinity());
  ASSERT_TRUE(parse_number<double>("nan").has_value());
  EXPECT_TRUE(std::isnan(*parse_number<double>("nan")));
}

RC_GTEST_PROP(ParseNumber, ReadsBackWhatIsPrinted, (std::int64_t whole, double real)) {
  RC_ASSERT(parse_number<std::int64_t>(fmt::format("{}", whole)) == whole);
  RC_ASSERT(parse_number<double>(fmt::format("{}", real)) == real);
}

}  // namespace
}  // namespace thinwire::base
