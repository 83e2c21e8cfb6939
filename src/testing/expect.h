// Returns the error that an action throws, so that a test can check its text and fields.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string_view>

namespace thinwire::test {

template <class Failure, class Action>
Failure must_throw(Action action) {
  try {
    action();
  } catch (const Failure& failure) {
    return failure;
  }
  throw std::runtime_error("the expected error was not thrown");
}

inline testing::AssertionResult has(std::string_view text, std::string_view part) {
  if (text.find(part) != std::string_view::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in '" << text << "'";
}

}  // namespace thinwire::test
