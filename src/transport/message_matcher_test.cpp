#include "transport/message_matcher.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <deque>

namespace thinwire::transport {
namespace {

struct Operation : Posted {};

Operation send(int from, int tag = 0, int lane = 0) {
  return {{lane, Tag{static_cast<std::uint32_t>(tag)}, from, {}, {}}};
}
Operation receive(int from, int tag = 0, int lane = 0) { return send(from, tag, lane); }

TEST(MessageMatcher, KeepsTheOrderOfSends) {
  MessageMatcher<Operation> matcher;
  Operation first = send(1), second = send(1), one = receive(1), two = receive(1);
  EXPECT_EQ(matcher.post_send(first), nullptr);
  EXPECT_EQ(matcher.post_send(second), nullptr);
  EXPECT_EQ(matcher.post_receive(one), &first);
  EXPECT_EQ(matcher.post_receive(two), &second);
}

TEST(MessageMatcher, KeepsTheOrderOfReceives) {
  MessageMatcher<Operation> matcher;
  Operation first = send(1), second = send(1), one = receive(1), two = receive(1);
  EXPECT_EQ(matcher.post_receive(one), nullptr);
  EXPECT_EQ(matcher.post_receive(two), nullptr);
  EXPECT_EQ(matcher.post_send(first), &one);
  EXPECT_EQ(matcher.post_send(second), &two);
}

TEST(MessageMatcher, KeepsTagsLanesAndRanksApart) {
  MessageMatcher<Operation> matcher;
  Operation other_rank = send(2), other_tag = send(1, 5), other_lane = send(1, 0, 3);
  Operation wanted = receive(1), tag = receive(1, 5), lane = receive(1, 0, 3), rank = receive(2);
  for (Operation* o : {&other_rank, &other_tag, &other_lane}) {
    EXPECT_EQ(matcher.post_send(*o), nullptr);
  }
  EXPECT_EQ(matcher.post_receive(wanted), nullptr);
  EXPECT_EQ(matcher.post_receive(tag), &other_tag);
  EXPECT_EQ(matcher.post_receive(lane), &other_lane);
  EXPECT_EQ(matcher.post_receive(rank), &other_rank);
  Operation right = send(1);
  EXPECT_EQ(matcher.post_send(right), &wanted);
}

TEST(MessageMatcher, AnyRankTakesTheOldestOfItsTag) {
  MessageMatcher<Operation> matcher;
  Operation tagged = send(3, 1), first = send(2), second = send(1);
  Operation any = receive(kAnyRank), again = receive(kAnyRank), third = receive(kAnyRank);
  matcher.post_send(tagged), matcher.post_send(first), matcher.post_send(second);
  EXPECT_EQ(matcher.post_receive(any), &first);
  EXPECT_EQ(matcher.post_receive(again), &second);
  EXPECT_EQ(matcher.post_receive(third), nullptr);
  Operation late = send(7);
  EXPECT_EQ(matcher.post_send(late), &third);
}

TEST(MessageMatcher, AWithdrawnOperationMatchesNothing) {
  MessageMatcher<Operation> matcher;
  Operation first = send(1), second = send(1), one = receive(1), two = receive(1);
  matcher.post_send(first), matcher.post_send(second);
  EXPECT_TRUE(matcher.withdraw(first));
  EXPECT_FALSE(matcher.withdraw(first));
  EXPECT_EQ(matcher.post_receive(one), &second);
  EXPECT_FALSE(matcher.withdraw(second)) << "it was matched";
  EXPECT_FALSE(matcher.withdraw(one));
  EXPECT_EQ(matcher.post_receive(two), nullptr);
  EXPECT_TRUE(matcher.withdraw(two));
  Operation last = send(1);
  EXPECT_EQ(matcher.post_send(last), nullptr);
}

// A simple model: all operations that were ever posted, in order, and whether they are still
// unmatched.
class Model {
 public:
  Operation* post(Operation& operation, bool sending) {
    for (Entry& other : entries_) {
      if (!other.open || other.sending == sending) continue;
      const Operation& s = sending ? operation : *other.operation;
      const Operation& r = sending ? *other.operation : operation;
      if (s.lane != r.lane || s.tag != r.tag) continue;
      if (r.from != kAnyRank && r.from != s.from) continue;
      other.open = false;
      return other.operation;
    }
    entries_.push_back({&operation, sending, true});
    return nullptr;
  }
  bool withdraw(const Operation& operation) {
    for (Entry& entry : entries_) {
      if (entry.operation == &operation && entry.open) return !(entry.open = false);
    }
    return false;
  }

 private:
  struct Entry {
    Operation* operation;
    bool sending;
    bool open;
  };
  std::vector<Entry> entries_;
};

RC_GTEST_PROP(MessageMatcherProperty, AgreesWithTheModel, ()) {
  MessageMatcher<Operation> matcher;
  Model model;
  std::deque<Operation> operations;
  const int steps = *rc::gen::inRange(0, 60);
  for (int step = 0; step < steps; ++step) {
    const int action = *rc::gen::inRange(0, 5);
    if (action == 4 && !operations.empty()) {
      Operation& chosen = operations[*rc::gen::inRange<std::size_t>(0, operations.size())];
      RC_ASSERT(matcher.withdraw(chosen) == model.withdraw(chosen));
      continue;
    }
    const bool sending = action % 2 == 0;
    const int lowest = sending ? 0 : kAnyRank;
    operations.push_back(
        send(*rc::gen::inRange(lowest, 3), *rc::gen::inRange(0, 2), *rc::gen::inRange(0, 2)));
    Operation& operation = operations.back();
    Operation* partner = sending ? matcher.post_send(operation) : matcher.post_receive(operation);
    RC_ASSERT(partner == model.post(operation, sending));
  }
}

}  // namespace
}  // namespace thinwire::transport
