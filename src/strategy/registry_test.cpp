#include <gtest/gtest.h>

#include <set>

#include "thinwire/strategy.h"

namespace thinwire::strategy {
namespace {

std::string refusal(std::string_view spec) {
  try {
    make_strategy(spec);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Strategies, HoldExactlyTheLinesOfTheList) {
  std::vector<std::string_view> listed;
#define TW_STRATEGY(word, help) listed.emplace_back(#word);
#include "strategy/list.inc"
#undef TW_STRATEGY
  ASSERT_EQ(strategies().size(), listed.size());
  for (std::size_t i = 0; i < listed.size(); ++i) {
    EXPECT_EQ(strategies()[i].name, listed[i]);
    EXPECT_FALSE(strategies()[i].help.empty());
  }
}

TEST(Strategies, AreMadeFromTheirDefaultsAndSayTheirKeys) {
  for (const StrategyInfo& entry : strategies()) {
    EXPECT_NE(make_strategy(entry.name), nullptr) << entry.name;
    for (const SpecKey& key : strategy_keys(entry.name)) {
      EXPECT_FALSE(key.name.empty() || key.fallback.empty() || key.allowed.empty()) << entry.name;
      // The default, given as a value, is allowed.
      const std::string spec = std::string(entry.name) + ":" + key.name + "=" + key.fallback;
      EXPECT_EQ(refusal(spec), "accepted") << spec;
    }
  }
}

TEST(Strategies, RefuseUnknownNamesKeysAndValuesWithTheClosestMatch) {
  EXPECT_TRUE(contains(refusal("dens"), "strategy: unknown name (dens); did you mean dense?"));
  EXPECT_TRUE(contains(refusal("dense:dtyp=fp32"), "did you mean dtype?"));
  EXPECT_TRUE(contains(refusal("dense:dtype=fp23"), "did you mean fp32?"));
  EXPECT_TRUE(contains(refusal("dense:dtype"), "has no value"));
  EXPECT_TRUE(contains(refusal(""), "is not a name"));
}

TEST(Strategies, WithoutStateSaveNothingAndRefuseForeignState) {
  const auto dense = make_strategy("dense");
  Payload state;
  dense->save(state);
  EXPECT_TRUE(state.empty());
  dense->load(state);
  state.resize(4);
  EXPECT_THROW(dense->load(state), WireError);
}

}  // namespace
}  // namespace thinwire::strategy
