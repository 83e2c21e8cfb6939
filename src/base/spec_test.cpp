#include "base/spec.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>

#include "testing/expect.h"
#include "thinwire/error.h"

namespace thinwire::base {
namespace {

std::string refusal(const std::function<void()>& action) {
  return test::must_throw<ConfigError>(action).what();
}
std::string parse_error(std::string_view text) {
  return refusal([&] { Spec::parse(text); });
}

TEST(Spec, ReadsNameAndKeys) {
  EXPECT_EQ(Spec::parse("dense").name(), "dense");
  Spec spec = Spec::parse("gtopk:density=0.001,values=fp32,warmup=0.25+0.0625,note=a=b:c d");
  EXPECT_EQ(spec.name(), "gtopk");
  EXPECT_EQ(spec.number("density", 1, 0, 1), 0.001);
  EXPECT_EQ(spec.text("values", "", ""), "fp32");
  EXPECT_EQ(spec.text("warmup", "", ""), "0.25+0.0625");
  EXPECT_EQ(spec.text("note", "", ""), "a=b:c d");
  EXPECT_EQ(spec.text("absent", "fallback", ""), "fallback");
  spec.reject_unused();
}

TEST(Spec, RefusesOtherForms) {
  EXPECT_EQ(parse_error(""), "'': '' is not a name; the form is name or name:key=value,key=value");
  EXPECT_TRUE(test::has(parse_error("top k"), "'top k' is not a name"));
  EXPECT_TRUE(test::has(parse_error(":a=1"), "'' is not a name"));
  EXPECT_TRUE(test::has(parse_error("n\xc3\xb6"), "is not a name"));
  EXPECT_TRUE(test::has(parse_error("n:"), "'' does not start with a key"));
  EXPECT_TRUE(test::has(parse_error("n:a=1,"), "'' does not start with a key"));
  EXPECT_TRUE(test::has(parse_error("n:=1"), "'=1' does not start with a key"));
  EXPECT_TRUE(test::has(parse_error("n:a b=1"), "'a b=1' does not start with a key"));
  EXPECT_TRUE(test::has(parse_error("n:a"), "key 'a' has no value"));
  EXPECT_TRUE(test::has(parse_error("n:a=,b=1"), "key 'a' has no value"));
  EXPECT_TRUE(test::has(parse_error("n:a=1,a=1"), "key 'a' appears twice"));
}

TEST(Spec, ChecksNumbers) {
  const auto number = [](std::string_view value) {
    return Spec::parse("s:x=" + std::string(value)).number("x", 0.5, 0.25, 1e3);
  };
  EXPECT_EQ(number("0.25"), 0.25);
  EXPECT_EQ(number("1e3"), 1e3);
  EXPECT_EQ(Spec::parse("s").number("x", 0.5, 0, 1), 0.5);
  EXPECT_EQ(refusal([&] { number("1e3.5"); }),
            "s: x is not allowed (1e3.5); use a number, 0.25 ... 1000");
  for (const char* nonsense : {"one", "1 ", " 1", "+1", "nan", "inf", "1e999", "0x1", "."}) {
    EXPECT_TRUE(test::has(refusal([&] { number(nonsense); }), "use a number")) << nonsense;
  }
  EXPECT_EQ(refusal([&] { number("0.2"); }), "s: x is not allowed (0.2); use 0.25 ... 1000");
  EXPECT_TRUE(test::has(refusal([&] { number("1000.1"); }), "; use "));
}

TEST(Spec, ChecksIntegers) {
  const auto integer = [](std::string_view value) {
    return Spec::parse("s:x=" + std::string(value)).integer("x", 4, -2, 8);
  };
  EXPECT_EQ(integer("-2"), -2);
  EXPECT_EQ(integer("8"), 8);
  EXPECT_EQ(Spec::parse("s").integer("x", 4, 0, 8), 4);
  for (const char* nonsense : {"1.0", "1e1", "x", "99999999999999999999", "+1"}) {
    EXPECT_TRUE(test::has(refusal([&] { integer(nonsense); }), "use a whole number, -2 ... 8"))
        << nonsense;
  }
  EXPECT_EQ(refusal([&] { integer("9"); }), "s: x is not allowed (9); use -2 ... 8");
  EXPECT_TRUE(test::has(refusal([&] { integer("-3"); }), "; use "));
}

TEST(Spec, ReadsAutoOrANumber) {
  const auto number = [](std::string_view value) {
    return Spec::parse("s:x=" + std::string(value)).number_or_auto("x", 0.25, 1e3);
  };
  EXPECT_EQ(Spec::parse("s").number_or_auto("x", 0.25, 1e3), std::nullopt);
  EXPECT_EQ(number("auto"), std::nullopt);
  EXPECT_EQ(number("0.25"), 0.25);
  EXPECT_EQ(number("1e3"), 1e3);
  for (const char* refused : {"0.2", "1000.1", "nan", "inf", "one", "Auto", "0.5x"}) {
    EXPECT_EQ(refusal([&] { number(refused); }),
              "s: x is not allowed (" + std::string(refused) + "); use auto, or 0.25 ... 1000");
  }
}

TEST(Spec, ReadsAutoOrAnInteger) {
  const auto integer = [](std::string_view value) {
    return Spec::parse("s:x=" + std::string(value)).integer_or_auto("x", 1, 8);
  };
  EXPECT_EQ(Spec::parse("s").integer_or_auto("x", 1, 8), std::nullopt);
  EXPECT_EQ(integer("auto"), std::nullopt);
  EXPECT_EQ(integer("1"), 1);
  EXPECT_EQ(integer("8"), 8);
  for (const char* refused : {"0", "9", "-1", "1.0", "two", "99999999999999999999"}) {
    EXPECT_EQ(refusal([&] { integer(refused); }),
              "s: x is not allowed (" + std::string(refused) + "); use auto, or 1 ... 8");
  }
  Spec spec = Spec::parse("s:x=2");
  spec.integer_or_auto("x", 1, 8);
  ASSERT_EQ(spec.keys().size(), 1u);
  EXPECT_EQ(spec.keys()[0].fallback, "auto");
  EXPECT_EQ(spec.keys()[0].allowed, "auto, or 1 ... 8");
}

TEST(Spec, ChecksChoices) {
  constexpr std::array<std::string_view, 3> kTypes = {"fp32", "bf16", "fp16"};
  EXPECT_EQ(Spec::parse("dense").choice("dtype", kTypes), "fp32");
  EXPECT_EQ(Spec::parse("dense:dtype=fp16").choice("dtype", kTypes), "fp16");
  EXPECT_EQ(refusal([&] { Spec::parse("dense:dtype=BF61").choice("dtype", kTypes); }),
            "dense: dtype is not allowed (BF61); did you mean bf16? use fp32, bf16, fp16");
  EXPECT_EQ(refusal([&] { Spec::parse("dense:dtype=double").choice("dtype", kTypes); }),
            "dense: dtype is not allowed (double); use fp32, bf16, fp16");
}

TEST(Spec, RefusesKeysThatNoAccessorHasRead) {
  Spec spec = Spec::parse("topk:densty=0.1");
  EXPECT_EQ(refusal([&] { spec.reject_unused(); }), "topk: unknown key (densty); there are none");
  spec.number("density", 0.001, 0, 1);
  spec.text("residual", "return", "return, paper");
  EXPECT_EQ(refusal([&] { spec.reject_unused(); }),
            "topk: unknown key (densty); did you mean density? known are density, residual");
}

TEST(Spec, RecordsTheKeysThatWereRead) {
  Spec spec = Spec::parse("topk:density=0.5");
  spec.number("density", 0.001, 0, 1);
  spec.integer("rank", 1, 0, 8);
  spec.number("density", 0.001, 0, 1);
  ASSERT_EQ(spec.keys().size(), 2u);
  EXPECT_EQ(spec.keys()[0].name, "density");
  EXPECT_EQ(spec.keys()[0].fallback, "0.001");
  EXPECT_EQ(spec.keys()[0].allowed, "0 ... 1");
  EXPECT_EQ(spec.keys()[1].fallback, "1");
}

TEST(ClosestMatch, FindsTheWordThatWasMeant) {
  const std::vector<std::string> words = {"dense", "topk", "gtopk", "qsgd", "powersgd", "localsgd"};
  EXPECT_EQ(closest_match("gtopc", words), "gtopk");
  EXPECT_EQ(closest_match("topk", words), "topk");
  EXPECT_EQ(closest_match("GTopK", words), "gtopk");
  EXPECT_EQ(closest_match("powrsgd", words), "powersgd");
  EXPECT_EQ(closest_match("dens", words), "dense");
  EXPECT_EQ(closest_match("banana", words), "");
  EXPECT_EQ(closest_match("", words), "");
  EXPECT_EQ(closest_match("x", {}), "");
}

TEST(ClosestMatch, PrefersTheFirstOfEquallyNearWords) {
  const std::vector<std::string> words = {"abcd", "abce"};
  EXPECT_EQ(closest_match("abcx", words), "abcd");
}

TEST(UnknownName, NamesKindHintAndAllThatIsKnown) {
  const std::vector<std::string> known = {"dense", "gtopk"};
  EXPECT_EQ(unknown_name("strategy", "gtopc", known),
            "strategy: unknown name (gtopc); did you mean gtopk? known are dense, gtopk");
  EXPECT_EQ(unknown_name("strategy", "zzzzzzzz", known),
            "strategy: unknown name (zzzzzzzz); known are dense, gtopk");
}

// Generates text that is a spec or nearly one. Random text would rarely have a valid name.
rc::Gen<std::string> near_spec() {
  return rc::gen::container<std::string>(
      rc::gen::weightedOneOf<char>({{5, rc::gen::element('a', 'b', 'Z', '0', '_', '-')},
                                    {3, rc::gen::element(':', '=', ',')},
                                    {1, rc::gen::arbitrary<char>()}}));
}

RC_GTEST_PROP(SpecProperty, AnyTextIsReadBackOrRefused, ()) {
  const std::string text = *near_spec();
  try {
    const Spec spec = Spec::parse(text);
    const std::string again = spec.str();
    RC_ASSERT(Spec::parse(again).str() == again);
    RC_ASSERT(again.size() == text.size());  // only the order of the keys may differ
  } catch (const ConfigError& error) {
    RC_ASSERT(std::string(error.what()).find("the form is name or name:key=value") !=
              std::string::npos);
  }
}

RC_GTEST_PROP(SpecProperty, PairsComeBackSorted,
              (const std::map<std::uint16_t, std::uint32_t>& in)) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [key, value] : in)
    pairs.emplace_back("k" + std::to_string(key), std::to_string(value));
  std::string shuffled = "name", sorted = "name";
  for (std::size_t i = pairs.size(); i-- > 0;) {
    shuffled += (i + 1 == pairs.size() ? ':' : ',') + pairs[i].first + '=' + pairs[i].second;
  }
  std::sort(pairs.begin(), pairs.end());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    sorted += (i == 0 ? ':' : ',') + pairs[i].first + '=' + pairs[i].second;
  }
  RC_ASSERT(Spec::parse(shuffled).str() == sorted);
}

// For any value, an accessor returns a result in range or throws a ConfigError that names the key.
RC_GTEST_PROP(SpecProperty, AnyValueIsInRangeOrRefused, ()) {
  const auto text = *rc::gen::nonEmpty(rc::gen::container<std::string>(
      rc::gen::element('0', '1', '9', '.', '-', 'e', 'n', 'x', '+')));
  Spec spec = Spec::parse("s:x=" + text);
  try {
    const double value = spec.number("x", 0, -5, 100);
    RC_ASSERT(value >= -5 && value <= 100);
  } catch (const ConfigError& error) {
    RC_ASSERT(std::string(error.what()).find("x is not allowed (" + text) != std::string::npos);
  }
  try {
    const std::int64_t value = spec.integer("x", 0, -5, 100);
    RC_ASSERT(value >= -5 && value <= 100);
  } catch (const ConfigError& error) {
    RC_ASSERT(std::string(error.what()).find("x is not allowed (" + text) != std::string::npos);
  }
}

}  // namespace
}  // namespace thinwire::base
