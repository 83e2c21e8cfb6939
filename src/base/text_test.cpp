#include "base/text.h"

#include <gtest/gtest.h>

namespace thinwire::base {
namespace {

TEST(Visible, ShowsControlCharactersAndKeepsTheRest) {
  EXPECT_EQ(visible(""), "");
  EXPECT_EQ(visible("plain ~ text"), "plain ~ text");
  EXPECT_EQ(visible("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(visible(std::string_view("a\0b\x1b[31m\n\x7f", 10)), "a\\x00b\\x1b[31m\\x0a\\x7f");
}

}  // namespace
}  // namespace thinwire::base
