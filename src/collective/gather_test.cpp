// All-gather, broadcast and barrier: results for any group are checked by
// tests/collective_laws.cpp; here are bytes, messages and what is special to each.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <numeric>

#include "collective/tags.h"
#include "testing/ranks.h"
#include "thinwire/collective.h"

namespace thinwire::collective {
namespace {

std::uint64_t rounds(int size) { return std::bit_width(static_cast<unsigned>(size) - 1); }

// What a rank sends in an all-gather: in the round of distance d, its own piece and those of the d
// - 1 ranks above it, in two messages if these wrap around the end.
struct Expected {
  std::uint64_t bytes = 0;
  std::uint64_t messages = 0;
};
Expected dissemination(int rank, const std::vector<std::uint64_t>& lengths) {
  const int size = static_cast<int>(lengths.size());
  Expected expected;
  for (int d = 1; d < size; d *= 2) {
    const int pieces = std::min(d, size - d);
    for (int k = 0; k < pieces; ++k) {
      expected.bytes += lengths[static_cast<std::size_t>((rank + k) % size)];
    }
    expected.messages += rank + pieces > size ? 2 : 1;
  }
  return expected;
}

class GatherGroups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, GatherGroups, testing::ValuesIn(test::kGroupSizes));

TEST_P(GatherGroups, AllgatherSendsEveryOtherPieceOnce) {
  const int size = GetParam();
  test::on_ranks(size, [&](Transport& wire) {
    const Payload mine(1000);
    Payload all(1000 * static_cast<std::size_t>(size));
    const test::Sent sent(wire);
    allgather(wire, mine, all);
    EXPECT_EQ(sent.bytes(), 1000u * static_cast<unsigned>(size - 1));
    const std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size), 1000);
    EXPECT_EQ(sent.messages(), dissemination(wire.rank(), lengths).messages);
    EXPECT_LE(sent.messages(), 2 * rounds(size));
  });
}

TEST_P(GatherGroups, UnequalAllgatherSendsLengthsAndPieces) {
  const int size = GetParam();
  test::on_ranks(size, [&](Transport& wire) {
    std::vector<std::uint64_t> expected, lengths(static_cast<std::size_t>(size));
    for (std::uint64_t r = 0; r < lengths.size(); ++r) expected.push_back(r * r * 100 % 777);
    const Payload mine(expected[static_cast<std::size_t>(wire.rank())]);
    Payload all;
    const test::Sent sent(wire);
    allgather(wire, mine, all, lengths);
    EXPECT_EQ(lengths, expected);
    const auto total = std::accumulate(expected.begin(), expected.end(), std::uint64_t{0});
    EXPECT_EQ(all.size(), total);
    const Expected pieces = dissemination(wire.rank(), expected);
    EXPECT_EQ(sent.bytes(), 8 * static_cast<std::uint64_t>(size - 1) + pieces.bytes);
    EXPECT_EQ(sent.messages(), pieces.messages * (total > 0 ? 2 : 1));
  });
}

TEST_P(GatherGroups, BroadcastSendsTheDataOnceToEveryRank) {
  const int size = GetParam();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{1'000'000}}) {
    for (const int root : {0, size - 1}) {
      std::atomic<std::uint64_t> total{0};
      test::on_ranks(size, [&](Transport& wire) {
        Payload data(bytes, static_cast<std::byte>(wire.rank()));
        const test::Sent sent(wire);
        broadcast(wire, data, root);
        EXPECT_EQ(data, Payload(bytes, static_cast<std::byte>(root)));
        total += sent.bytes();
        const bool small = bytes < 10'000 || size == 2;
        if (!small) {
          EXPECT_LE(sent.bytes(), bytes) << "in a chain each rank forwards the data once";
        } else if (wire.rank() == root) {
          EXPECT_EQ(sent.bytes(), rounds(size) * bytes);
        }
      });
      EXPECT_EQ(total, static_cast<std::uint64_t>(size - 1) * bytes);
    }
  }
}

TEST_P(GatherGroups, BarrierSendsNoDataAndReleasesNoRankEarly) {
  const int size = GetParam();
  std::atomic<int> arrived{0};
  test::on_ranks(size, [&](Transport& wire) {
    for (int turn = 1; turn <= 5; ++turn) {
      ++arrived;
      const test::Sent sent(wire);
      barrier(wire);
      EXPECT_GE(arrived, turn * size);
      EXPECT_EQ(sent.bytes(), 0u);
      EXPECT_EQ(sent.messages(), rounds(size));
    }
  });
}

TEST(Allgather, AcceptsAPieceThatIsAlreadyInItsPlace) {
  test::on_ranks(5, [](Transport& wire) {
    std::vector<std::uint32_t> all(5, 99);
    auto& mine = all[static_cast<std::size_t>(wire.rank())];
    mine = static_cast<std::uint32_t>(wire.rank());
    allgather(wire, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    EXPECT_EQ(all, (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
  });
}

RC_GTEST_PROP(AllgatherProperty, PiecesOfAnyLengthComeInRankOrder, ()) {
  const int size = *rc::gen::inRange(1, 12);
  std::vector<Payload> pieces;
  Payload expected;
  for (int r = 0; r < size; ++r) {
    const auto piece =
        *rc::gen::container<std::vector<std::uint8_t>>(rc::gen::arbitrary<std::uint8_t>());
    const Bytes raw = std::as_bytes(std::span(piece));
    pieces.emplace_back(raw.begin(), raw.end());
    expected.insert(expected.end(), raw.begin(), raw.end());
  }
  std::vector<Payload> all(pieces.size());
  test::on_ranks(size, [&](Transport& wire) {
    const auto rank = static_cast<std::size_t>(wire.rank());
    std::vector<std::uint64_t> lengths(pieces.size());
    allgather(wire, pieces[rank], all[rank], lengths);
  });
  for (const Payload& mine : all) RC_ASSERT(mine == expected);
}

TEST(Allgather, RefusesInvalidArgumentsBeforeAnythingIsSent) {
  test::on_ranks(2, [](Transport& wire) {
    Payload mine(10), all(21), pieces;
    std::vector<std::uint64_t> lengths(2), too_few(1);
    EXPECT_THROW(allgather(wire, mine, all), std::logic_error);
    EXPECT_THROW(allgather(wire, mine, pieces, too_few), std::logic_error);
    EXPECT_THROW(allgather(wire, mine, pieces, lengths, 9), std::logic_error);
    EXPECT_THROW(broadcast(wire, all, 2), std::logic_error);
    EXPECT_THROW(broadcast(wire, all, -1), std::logic_error);
    EXPECT_EQ(wire.traffic().messages_sent, 0u);
  });
}

// Rank 1 sends the messages of the protocol itself and announces a wrong length.
TEST(Allgather, RefusesAnAnnouncedLengthThatIsTooLong) {
  test::on_ranks(2, [](Transport& wire) {
    if (wire.rank() == 1) {
      const std::uint64_t length = std::uint64_t{1} << 60;
      std::uint64_t theirs = 0;
      wire.exchange(0, std::as_bytes(std::span(&length, 1)), 0,
                    std::as_writable_bytes(std::span(&theirs, 1)),
                    tag_of(Stream::allgather_lengths));
      EXPECT_EQ(theirs, 3u);
      return;
    }
    Payload all;
    std::vector<std::uint64_t> lengths(2);
    try {
      allgather(wire, Payload(3), all, lengths);
      ADD_FAILURE() << "the announced length was accepted";
    } catch (const WireError& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("1152921504606846976"), std::string::npos);
    }
    EXPECT_EQ(all.capacity(), 0u);
  });
}

}  // namespace
}  // namespace thinwire::collective
