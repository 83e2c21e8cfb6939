// Who is to blame: laws over random groups, waits and silences.
#include "rendezvous/failure_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace thinwire::rendezvous {
namespace {

using testing::HasSubstr;
using Kind = FailureDetector::Kind;

FailureDetector delay(int asker, int about) {
  return FailureDetector({asker, about, Kind::delay, "late"});
}

// Ranks 0 ... last wait for the next one, the last for nobody.
TEST(FailureDetectorTest, AChainOfWaitsLeadsToItsEnd) {
  FailureDetector call = delay(0, 1);
  for (int rank = 0; rank < 4; ++rank)
    call.answer(rank, rank < 3 ? rank + 1 : FailureDetector::kNobody);
  const auto loss = call.find_culprit({0, 1, 2, 3});
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 3);
  EXPECT_THAT(loss->reason, HasSubstr("late, though its process runs"));
}

TEST(FailureDetectorTest, ARingOfWaitsIsSaidToBeOne) {
  FailureDetector call = delay(0, 1);
  for (int rank = 0; rank < 3; ++rank) call.answer(rank, (rank + 1) % 3);
  const auto loss = call.find_culprit({0, 1, 2});
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 1);
  EXPECT_THAT(loss->reason, HasSubstr("in a ring"));
}

TEST(FailureDetectorTest, ARankThatFinishedIsNotExpectedToAnswer) {
  FailureDetector call = delay(0, 1);
  call.answer(0, 1);
  call.answer(1, 2);
  EXPECT_TRUE(call.answered_by({0, 1}));
  const auto loss = call.find_culprit({0, 1});
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 2);
  EXPECT_THAT(loss->reason, HasSubstr("already finished"));
}

TEST(FailureDetectorTest, AClosedConnectionIsBetweenTwo) {
  FailureDetector call({0, 1, Kind::broken, "closed"});
  call.answer(0, FailureDetector::kNobody);
  call.answer(1, 2);
  call.answer(2, FailureDetector::kNobody);
  const auto loss = call.find_culprit({0, 1, 2});
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 1);
  EXPECT_EQ(loss->reason, "closed");
}

TEST(FailureDetectorTest, WhoIsAtWorkOwesNoFarewell) {
  FailureDetector call({0, 1, Kind::absence, "no farewell"});
  call.answer(1, FailureDetector::kNobody);
  EXPECT_FALSE(call.find_culprit({1}));
  EXPECT_EQ(FailureDetector({0, 1, Kind::absence, "no farewell"}).find_culprit({1})->rank, 1);
}

// Whatever ranks answer, and to whomever complaints point: a find_culprit comes, and one who did
// not answer is named before anyone who did.
RC_GTEST_PROP(FailureDetectorTest, SilenceIsTheWorstAnswer, ()) {
  const int size = *rc::gen::inRange(2, 9);
  const int asker = *rc::gen::inRange(0, size);
  const int about = (asker + *rc::gen::inRange(1, size)) % size;
  FailureDetector call = delay(asker, about);
  std::set<int> expected, silent;
  for (int rank = 0; rank < size; ++rank) {
    expected.insert(rank);
    const bool answers = rank == asker || *rc::gen::arbitrary<bool>();
    if (answers) {
      const int other = (rank + *rc::gen::inRange(1, size)) % size;
      call.answer(rank, *rc::gen::arbitrary<bool>() ? other : FailureDetector::kNobody);
    } else {
      silent.insert(rank);
    }
  }
  const auto loss = call.find_culprit(expected);
  RC_ASSERT(loss.has_value());
  RC_ASSERT(expected.contains(loss->rank));
  RC_ASSERT(silent.empty() == call.answered_by(expected));
  if (!silent.empty()) RC_ASSERT(silent.contains(loss->rank));
}

}  // namespace
}  // namespace thinwire::rendezvous
