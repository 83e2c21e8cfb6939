#include <gtest/gtest.h>

#include <set>

#include "trainer/data/test_files.h"

namespace thinwire::trainer {
namespace {

TEST(DataSources, HaveNamesOfTheirOwnAndHelp) {
  std::set<std::string_view> names;
  for (const DataSource& source : data_sources()) {
    EXPECT_TRUE(names.insert(source.name).second) << source.name;
    EXPECT_TRUE(source.help.starts_with(source.name)) << source.name;
    EXPECT_NE(source.load, nullptr);
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"cifar10", "digits", "mnist", "text"}));
}

TEST(DataSources, UnknownNamesAreRefusedWithTheClosest) {
  expect_contains(refusal("minst:/tmp"), {"minst", "did you mean mnist", "cifar10"});
  expect_contains(refusal(""), {"data: unknown name"});
}

TEST(DataSources, NameTheMissingArgument) {
  expect_contains(refusal("mnist"), {"mnist:DIR", "tools/get-data mnist"});
  expect_contains(refusal("mnist:"), {"mnist:DIR"});
  expect_contains(refusal("cifar10"), {"cifar10:DIR", "tools/get-data cifar10"});
  expect_contains(refusal("text"), {"text:FILE", "text:word:FILE"});
  expect_contains(refusal("text:word:"), {"text:word:FILE"});
  expect_contains(refusal("digits:big"), {"digits:big", "no argument"});
}

}  // namespace
}  // namespace thinwire::trainer
