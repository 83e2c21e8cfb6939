// The value of --strategies, as `compare` and `plan` take it.
#include "cli/flag_values.h"

#include <gtest/gtest.h>

#include "testing/expect.h"
#include "testing/split_words.h"
#include "thinwire/error.h"

namespace thinwire::cli {
namespace {

TEST(StrategyList, IsCheckedAndKeepsItsOrder) {
  EXPECT_EQ(parse_strategies("gtopk; qsgd:bits=2 ;"), (test::Words{"gtopk", "qsgd:bits=2"}));
  EXPECT_EQ(parse_strategies("topk;dense"), (test::Words{"topk", "dense"}));
  EXPECT_EQ(parse_strategies("gtopk:values=fp32,density=0.01")[0],
            "gtopk:density=0.01,values=fp32");
  const auto refusal = [](const char* text) {
    return std::string(test::must_throw<ConfigError>([&] { parse_strategies(text); }).what());
  };
  EXPECT_TRUE(test::has(refusal("dense; gtopc"), "did you mean gtopk"));
  EXPECT_TRUE(test::has(refusal("dense; gtopk:densty=1"), "densty"));
  EXPECT_TRUE(
      test::has(refusal("topk:density=0.1,values=fp32; topk:values=fp32,density=0.1"), "twice"));
  EXPECT_TRUE(test::has(refusal(" ; "), "at least one"));
}

}  // namespace
}  // namespace thinwire::cli
