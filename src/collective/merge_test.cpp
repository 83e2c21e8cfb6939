#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <string>

#include "testing/expect.h"
#include "testing/ranks.h"
#include "thinwire/collective.h"

namespace thinwire::collective {
namespace {

Payload payload(std::string_view text) {
  const Bytes raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}
std::string text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Neither associative nor commutative: the result shows who was merged with whom, and in which
// order. Three bytes longer than its operands together.
void bracket(Bytes lower, Bytes higher, Payload& out) {
  ASSERT_TRUE(out.empty());
  const Payload merged = payload("(" + text(lower) + "," + text(higher) + ")");
  out.insert(out.end(), merged.begin(), merged.end());
}

std::string leaf(int rank) { return std::to_string(rank); }

// Neighbours are merged, level by level; of an odd number the last waits.
std::string tree_shape(std::vector<std::string> values) {
  while (values.size() > 1) {
    std::vector<std::string> next;
    for (std::size_t i = 0; i < values.size(); i += 2) {
      next.push_back(i + 1 < values.size() ? "(" + values[i] + "," + values[i + 1] + ")"
                                           : values[i]);
    }
    values = next;
  }
  return values[0];
}

// The first 2e ranks are merged in pairs, so that a power of two is left.
std::string butterfly_shape(int size) {
  const int extra = size - static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  std::vector<std::string> values;
  for (int r = 0; r < 2 * extra; r += 2) values.push_back("(" + leaf(r) + "," + leaf(r + 1) + ")");
  for (int r = 2 * extra; r < size; ++r) values.push_back(leaf(r));
  return tree_shape(values);
}

class MergeGroups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, MergeGroups, testing::ValuesIn(test::kGroupSizes));

TEST_P(MergeGroups, ButterflyMergesNeighbouringRangesInOrder) {
  const std::string expected = butterfly_shape(GetParam());
  test::on_ranks(GetParam(), [&](Transport& wire) {
    Payload value = payload(leaf(wire.rank()));
    merge_butterfly(wire, value, expected.size(), bracket);
    EXPECT_EQ(text(value), expected);
  });
}

// Values that keep their length, as those of gtopk nearly do.
TEST_P(MergeGroups, SendTheBytesOfTheFormula) {
  constexpr std::size_t kBytes = 1000;
  const int size = GetParam();
  const auto most = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  const auto log_most = static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(most)));
  const Merge first = [](Bytes lower, Bytes, Payload& out) {
    out.insert(out.end(), lower.begin(), lower.end());
  };
  test::on_ranks(size, [&](Transport& wire) {
    Payload value(kBytes, static_cast<std::byte>(wire.rank()));
    const test::Sent butterfly(wire);
    merge_butterfly(wire, value, kBytes, first);
    EXPECT_EQ(value, Payload(kBytes, std::byte{0}));
    const bool paired = wire.rank() < 2 * (size - most);
    const unsigned sends = !paired ? log_most : wire.rank() % 2 != 0 ? 1 : log_most + 1;
    EXPECT_EQ(butterfly.messages(), sends);
    EXPECT_EQ(butterfly.bytes(), sends * kBytes);
  });
}

TEST(Merge, RefusesAValueThatIsTooLongBeforeItIsSent) {
  test::on_ranks(3, [&](Transport& wire) {
    Payload value(11);
    EXPECT_THROW(merge_butterfly(wire, value, 10, bracket), std::logic_error);
    EXPECT_EQ(wire.traffic().messages_sent, 0u);
  });
}

// The merge of ranks 0 and 1 is too long: rank 0 says so and dies, the others learn who did.
TEST(Merge, RefusesAMergedValueThatIsTooLongBeforeItIsSentOn) {
  std::atomic<int> refused{0}, lost{0};
  EXPECT_THROW(test::on_ranks(3,
                              [&](Transport& wire) {
                                Payload value = payload("x");
                                try {
                                  merge_butterfly(wire, value, 4, bracket);
                                } catch (const std::logic_error&) {
                                  EXPECT_EQ(wire.rank(), 0);
                                  EXPECT_EQ(wire.traffic().messages_sent, 0u);
                                  ++refused;
                                  throw;
                                } catch (const TransportError& error) {
                                  EXPECT_EQ(error.peer(), 0) << error.what();
                                  ++lost;
                                }
                              }),
               std::logic_error);
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(lost, 2);
}

// What a merge throws comes out, and nothing is left posted that could write to dead memory.
TEST(Merge, PassesOnWhatTheMergeThrows) {
  test::on_ranks(1, [](Transport& wire) {
    Payload value = payload("alone");
    merge_butterfly(wire, value, 5,
                    [](Bytes, Bytes, Payload&) { throw WireError("never called"); });
    EXPECT_EQ(text(value), "alone");
  });
  EXPECT_THROW(test::on_ranks(4,
                              [](Transport& wire) {
                                Payload value = payload("x");
                                merge_butterfly(wire, value, 100, [](Bytes, Bytes, Payload&) {
                                  throw WireError("a damaged value");
                                });
                              }),
               Error);
}

// Rank 1 of three does not merge; it checks the result that it receives.
TEST(Merge, AResultIsCheckedByARankThatDoesNotMerge) {
  std::atomic<int> refused{0};
  const Merge merge(bracket, [](Bytes) { throw WireError("a damaged value"); });
  const auto worker = [&](Transport& wire) {
    Payload value = payload("x");
    try {
      merge_butterfly(wire, value, 100, merge);
    } catch (const WireError& error) {
      EXPECT_TRUE(test::has(error.what(), "rank 0 (")) << wire.rank();
      EXPECT_EQ(wire.rank(), 1);
      ++refused;
      throw;
    }
  };
  EXPECT_THROW(test::on_ranks(3, worker), Error);
  EXPECT_GT(refused, 0);
}

TEST(Merge, AValueThatIsTooLongForItsReceiverIsRefusedByName) {
  std::atomic<int> refused{0};
  EXPECT_THROW(
      test::on_ranks(2,
                     [&](Transport& wire) {
                       Payload value(wire.rank() == 0 ? 10 : 200);
                       try {
                         merge_butterfly(wire, value, wire.rank() == 0 ? 100 : 300, bracket);
                       } catch (const WireError& error) {
                         EXPECT_EQ(wire.rank(), 0);
                         EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos);
                         ++refused;
                         throw;
                       }
                     }),
      Error);
  EXPECT_EQ(refused, 1);
}

}  // namespace
}  // namespace thinwire::collective
