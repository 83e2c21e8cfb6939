#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>

namespace thinwire::base {
namespace {

TEST(Hash, IsTheSameOnEveryMachine) {
  // The published value of XXH3 for an empty input with seed 0.
  EXPECT_EQ(hash64({}), 0x2d06800538d394c2u);
}

TEST(Hash, DetectsEveryFlippedBit) {
  Payload data(257);
  std::set<std::uint64_t> seen{hash64(data)};
  for (std::size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_TRUE(seen.insert(hash64(data)).second) << bit;
    data[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
}

}  // namespace
}  // namespace thinwire::base
