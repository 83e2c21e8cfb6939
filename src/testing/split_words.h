// Command lines as lists of words, which + concatenates.
#pragma once

#include <string>
#include <vector>

namespace thinwire::test {

using Words = std::vector<std::string>;

inline Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

}  // namespace thinwire::test
