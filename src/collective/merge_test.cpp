#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <string>

#include "testing/expect.h"
#include "testing/ranks.h"
#include "thinwire/collective.h"

namespace thinwire::collective {
namespace {

// Strings as values. The combination is neither associative nor commutative: the result shows which
// ranges were combined, and in which order. It is three bytes longer than its operands together.
struct Bracket {
  void encode(const std::string& value, Payload& out) {
    EXPECT_TRUE(out.empty());
    const Bytes raw = std::as_bytes(std::span(value));
    out.insert(out.end(), raw.begin(), raw.end());
    ++encoded;
  }
  void decode(Bytes in, std::string& out) {
    out.assign(reinterpret_cast<const char*>(in.data()), in.size());
    ++decoded;
  }
  void combine(const std::string& lower, const std::string& higher, std::string& out) {
    ASSERT_TRUE(&out != &lower && &out != &higher);
    out = "(" + lower + "," + higher + ")";
    ++combined;
  }
  unsigned encoded = 0, decoded = 0, combined = 0;
};

// Keeps the lower value, so that all messages have the same length, as those of gtopk nearly do.
struct KeepLower : Bracket {
  void combine(const std::string& lower, const std::string&, std::string& out) { out = lower; }
};

template <class Rule = Bracket>
void merge(Transport& wire, std::string& value, std::size_t max_bytes, Rule&& rule = {}) {
  ButterflyMerge<std::string>().run(wire, value, max_bytes, rule);
}

std::string leaf(int rank) { return std::to_string(rank); }

// Combines neighbours, level by level; the last of an odd number is left for the next level.
std::string pairwise(std::vector<std::string> values) {
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

// Returns by how many ranks a group exceeds a power of two.
int extra_of(int size) {
  return size - static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
}
unsigned rounds_of(int size) {
  return static_cast<unsigned>(std::bit_width(static_cast<unsigned>(size)) - 1);
}

// Returns the expected result: the first 2e ranks are combined in pairs, so that a power of two
// remains.
std::string butterfly_shape(int size) {
  const int extra = extra_of(size);
  std::vector<std::string> values;
  for (int r = 0; r < 2 * extra; r += 2) values.push_back("(" + leaf(r) + "," + leaf(r + 1) + ")");
  for (int r = 2 * extra; r < size; ++r) values.push_back(leaf(r));
  return pairwise(values);
}

class MergeGroups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, MergeGroups, testing::ValuesIn(test::kGroupSizes));

TEST_P(MergeGroups, CombineNeighbouringRangesInOrder) {
  const std::string expected = butterfly_shape(GetParam());
  test::on_ranks(GetParam(), [&](Transport& wire) {
    ButterflyMerge<std::string> merge;
    Bracket rule;
    // The memory of the first call must not influence the second.
    for (int turn = 0; turn < 2; ++turn) {
      std::string value = leaf(wire.rank());
      merge.run(wire, value, expected.size(), rule);
      EXPECT_EQ(value, expected);
    }
  });
}

// A value is encoded for each message that is sent, decoded for each that arrives, and not
// otherwise.
TEST_P(MergeGroups, SendTheBytesOfTheFormulaAndEncodeNothingElse) {
  constexpr std::size_t kBytes = 1000;
  const int size = GetParam();
  test::on_ranks(size, [&](Transport& wire) {
    std::string value(kBytes, static_cast<char>('0' + wire.rank()));
    const test::Sent sent(wire);
    const std::uint64_t received = wire.traffic().messages_received;
    KeepLower rule;
    merge(wire, value, kBytes, rule);
    EXPECT_EQ(value, std::string(kBytes, '0'));
    const bool paired = wire.rank() < 2 * extra_of(size);
    const unsigned rounds = rounds_of(size);
    const unsigned sends = !paired ? rounds : wire.rank() % 2 != 0 ? 1 : rounds + 1;
    EXPECT_EQ(sent.messages(), sends);
    EXPECT_EQ(sent.bytes(), sends * kBytes);
    EXPECT_EQ(rule.encoded, sends);
    EXPECT_EQ(rule.decoded, wire.traffic().messages_received - received);
  });
}

TEST(Merge, RefusesAValueThatIsTooLongBeforeItIsSent) {
  test::on_ranks(4, [&](Transport& wire) {
    std::string value(11, 'x');
    EXPECT_THROW(merge(wire, value, 10), std::logic_error);
    EXPECT_EQ(wire.traffic().messages_sent, 0u);
  });
}

// The merge of ranks 0 and 1 is too long: rank 0 says so and fails, the others report rank 0.
TEST(Merge, RefusesAMergedValueThatIsTooLongBeforeItIsSentOn) {
  std::atomic<int> refused{0}, lost{0};
  const auto worker = [&](Transport& wire) {
    std::string value = "x";
    try {
      merge(wire, value, 4);
    } catch (const std::logic_error&) {
      EXPECT_EQ(wire.rank(), 0);
      EXPECT_EQ(wire.traffic().messages_sent, 0u);
      ++refused;
      throw;
    } catch (const TransportError& error) {
      EXPECT_EQ(error.peer(), 0) << error.what();
      ++lost;
    }
  };
  EXPECT_THROW(test::on_ranks(3, worker), std::logic_error);
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(lost, 2);
}

struct Damaged : Bracket {
  void decode(Bytes, std::string&) { throw WireError("a damaged value"); }
};

TEST(Merge, OfOneRankCallsNothing) {
  test::on_ranks(1, [](Transport& wire) {
    std::string value = "alone";
    Damaged rule;
    merge(wire, value, 5, rule);
    EXPECT_EQ(value, "alone");
    EXPECT_EQ(rule.encoded + rule.combined, 0u);
  });
}

// After the exception no operation may be left posted that could write to freed memory.
TEST(Merge, PassesOnWhatTheRuleThrows) {
  const auto worker = [](Transport& wire) {
    std::string value = "x";
    merge(wire, value, 100, Damaged());
  };
  EXPECT_THROW(test::on_ranks(4, worker), Error);
}

// Rank 1 of three does not take part in the merge; it decodes the result that it receives.
struct DamagedResult : Bracket {
  explicit DamagedResult(int rank) : at(rank) {}
  void decode(Bytes in, std::string& out) {
    if (at == 1) throw WireError("a damaged value");
    Bracket::decode(in, out);
  }
  int at;
};

TEST(Merge, ADamagedResultIsReportedWithTheRankThatSentIt) {
  std::atomic<int> refused{0};
  const auto worker = [&](Transport& wire) {
    std::string value = "x";
    try {
      merge(wire, value, 100, DamagedResult(wire.rank()));
    } catch (const WireError& error) {
      EXPECT_TRUE(test::has(error.what(), "rank 1: rank 0 ("));
      ++refused;
      throw;
    }
  };
  EXPECT_THROW(test::on_ranks(3, worker), Error);
  EXPECT_EQ(refused, 1);
}

TEST(Merge, AValueThatIsTooLongForItsReceiverIsRefusedByName) {
  std::atomic<int> refused{0};
  const auto worker = [&](Transport& wire) {
    std::string value(wire.rank() == 0 ? 10 : 200, 'x');
    try {
      merge(wire, value, wire.rank() == 0 ? 100 : 300);
    } catch (const WireError& error) {
      EXPECT_EQ(wire.rank(), 0);
      EXPECT_TRUE(test::has(error.what(), "rank 1"));
      ++refused;
      throw;
    }
  };
  EXPECT_THROW(test::on_ranks(2, worker), Error);
  EXPECT_EQ(refused, 1);
}

}  // namespace
}  // namespace thinwire::collective
