#include "transport/wrappers/link.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace thinwire::transport {
namespace {

constexpr Seconds at(double seconds) { return Seconds(seconds); }

TEST(Link, CarriesASingleTransferAtOnce) {
  Link link;
  EXPECT_EQ(link.carry(at(10), at(3)), at(13));
}

TEST(Link, CarriesTransfersBackToBack) {
  Link link;
  EXPECT_EQ(link.carry(at(0), at(2)), at(2));
  EXPECT_EQ(link.carry(at(1), at(2)), at(4));
  EXPECT_EQ(link.carry(at(4), at(2)), at(6));
  EXPECT_EQ(link.carry(at(10), at(1)), at(11)) << "an idle link does not accumulate bandwidth";
  EXPECT_EQ(link.carry(at(10), at(1)), at(12));
}

TEST(Link, SharesAnIncastInWhateverOrderTransfersArePassed) {
  Link link;
  for (int flow = 1; flow <= 8; ++flow) EXPECT_EQ(link.carry(at(5), at(2)), at(5 + 2 * flow));
}

TEST(Link, UsesThePausesBeforeALaterTransfer) {
  Link link;
  EXPECT_EQ(link.carry(at(10), at(5)), at(15));
  EXPECT_EQ(link.carry(at(2), at(3)), at(5)) << "complete before the other transfer starts";
  EXPECT_EQ(link.carry(at(0), at(2)), at(2)) << "ends where another begins";
  EXPECT_EQ(link.carry(at(4), at(6)), at(16)) << "5 in the pause, 1 after the other transfer";
  EXPECT_EQ(link.carry(at(0), at(1)), at(17)) << "nothing is free before 16";
}

TEST(Link, AnEmptyMessageQueuesButTakesNothing) {
  Link link;
  EXPECT_EQ(link.carry(at(3), at(0)), at(3));
  link.carry(at(3), at(2));
  EXPECT_EQ(link.carry(at(4), at(0)), at(5));
  EXPECT_EQ(link.carry(at(5), at(0)), at(5));
  EXPECT_EQ(link.carry(at(4), at(1)), at(6));
}

TEST(Link, ForgetsOnlyTheDistantPast) {
  Link link;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(link.carry(at(2 * i), at(1)), at(2 * i + 1));
  EXPECT_EQ(link.carry(at(1998), at(1)), at(2000)) << "the last is remembered";
  EXPECT_EQ(link.carry(at(0), at(1)), at(1)) << "the first is not";
}

// Compares with a simple model: time is divided into unit slots, each of which carries at most one
// transfer.
RC_GTEST_PROP(LinkProperty, AgreesWithSlots, ()) {
  Link link;
  std::vector<bool> taken(20'000);
  const auto transfers = *rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(0, 200), rc::gen::inRange(1, 20)));
  for (const auto& [start, duration] : transfers) {
    auto slot = static_cast<std::size_t>(start);
    for (int left = duration; left > 0; ++slot) {
      if (!taken[slot]) taken[slot] = true, --left;
    }
    RC_ASSERT(link.carry(at(start), at(duration)) == at(static_cast<double>(slot)));
  }
}

// The time at which all transfers are complete does not depend on the order of the calls.
RC_GTEST_PROP(LinkProperty, TheLastEndDoesNotDependOnTheOrder, ()) {
  auto transfers = *rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(0, 100), rc::gen::inRange(1, 20)));
  const auto last_end = [&] {
    Link link;
    Seconds last{0};
    for (const auto& [start, duration] : transfers) {
      last = std::max(last, link.carry(at(start), at(duration)));
    }
    return last;
  };
  const Seconds forwards = last_end();
  std::reverse(transfers.begin(), transfers.end());
  RC_ASSERT(last_end() == forwards);
}

}  // namespace
}  // namespace thinwire::transport
