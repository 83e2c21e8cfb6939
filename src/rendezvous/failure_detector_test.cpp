// Tests which rank is blamed, also in random groups with random waits and missing answers.
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

// Each rank waits for the next one; the last one waits for none.
TEST(FailureDetectorTest, AChainOfWaitsLeadsToItsEnd) {
  FailureDetector detector = delay(0, 1);
  for (int rank = 0; rank < 4; ++rank) detector.answer(rank, rank < 3 ? rank + 1 : kNoRank);
  const auto loss = detector.find_culprit({0, 1, 2, 3});
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 3);
  EXPECT_THAT(loss->reason, HasSubstr("late, though its process runs"));
}

TEST(FailureDetectorTest, ARingOfWaitsIsReportedAsSuch) {
  FailureDetector detector = delay(0, 1);
  for (int rank = 0; rank < 3; ++rank) detector.answer(rank, (rank + 1) % 3);
  const auto loss = detector.find_culprit({0, 1, 2});
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 1);
  EXPECT_THAT(loss->reason, HasSubstr("in a ring"));
}

TEST(FailureDetectorTest, ARankThatFinishedIsNotExpectedToAnswer) {
  FailureDetector detector = delay(0, 1);
  detector.answer(0, 1);
  detector.answer(1, 2);
  EXPECT_TRUE(detector.answered_by({0, 1}));
  const auto loss = detector.find_culprit({0, 1});
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 2);
  EXPECT_THAT(loss->reason, HasSubstr("already finished"));
}

TEST(FailureDetectorTest, AClosedConnectionIsBetweenTwo) {
  FailureDetector detector({0, 1, Kind::broken, "closed"});
  detector.answer(0, kNoRank);
  detector.answer(1, 2);
  detector.answer(2, kNoRank);
  const auto loss = detector.find_culprit({0, 1, 2});
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 1);
  EXPECT_EQ(loss->reason, "closed");
}

TEST(FailureDetectorTest, ARankThatIsStillWorkingIsNotBlamed) {
  FailureDetector detector({0, 1, Kind::absence, "no final message"});
  detector.answer(1, kNoRank);
  EXPECT_FALSE(detector.find_culprit({1}));
  EXPECT_EQ(FailureDetector({0, 1, Kind::absence, "no final message"}).find_culprit({1})->rank, 1);
}

// For any answers and any suspicion, a culprit is found, and a rank that did not answer is blamed
// before any rank that did.
RC_GTEST_PROP(FailureDetectorTest, ARankThatDoesNotAnswerIsBlamedFirst, ()) {
  const int size = *rc::gen::inRange(2, 9);
  const int asker = *rc::gen::inRange(0, size);
  const int about = (asker + *rc::gen::inRange(1, size)) % size;
  FailureDetector detector = delay(asker, about);
  std::set<int> expected, silent;
  for (int rank = 0; rank < size; ++rank) {
    expected.insert(rank);
    const bool answers = rank == asker || *rc::gen::arbitrary<bool>();
    if (answers) {
      const int other = (rank + *rc::gen::inRange(1, size)) % size;
      detector.answer(rank, *rc::gen::arbitrary<bool>() ? other : kNoRank);
    } else {
      silent.insert(rank);
    }
  }
  const auto loss = detector.find_culprit(expected);
  RC_ASSERT(loss.has_value());
  RC_ASSERT(expected.contains(loss->rank));
  RC_ASSERT(silent.empty() == detector.answered_by(expected));
  if (!silent.empty()) RC_ASSERT(silent.contains(loss->rank));
}

}  // namespace
}  // namespace thinwire::rendezvous
