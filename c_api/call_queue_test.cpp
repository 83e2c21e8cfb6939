#include "c_api/call_queue.h"

#include <gtest/gtest.h>

#include <latch>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace thinwire::c_api {
namespace {

constexpr double kForever = -1;

TEST(CallQueue, ExecutesCallsInTheirOrder) {
  std::vector<int> done, expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  CallQueue calls;
  for (const int call : expected) {
    calls.start([&done, call] { done.push_back(call); });
  }
  EXPECT_TRUE(calls.wait(kForever));
  EXPECT_TRUE(calls.idle());
  EXPECT_EQ(done, expected);
}

TEST(CallQueue, WaitsForALimitedTime) {
  std::latch released(1);
  CallQueue calls;
  calls.start([&] { released.wait(); });
  EXPECT_FALSE(calls.wait(0.01));
  EXPECT_FALSE(calls.idle());
  released.count_down();
  EXPECT_TRUE(calls.wait(kForever));
}

TEST(CallQueue, AFailureDiscardsTheCallsThatFollow) {
  bool executed = false;
  CallQueue calls;
  calls.start([] { throw std::runtime_error("first"); });
  calls.start([&] { executed = true; });
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_THROW(calls.wait(kForever), std::runtime_error);
  calls.start([&] { executed = true; });
  EXPECT_THROW(calls.wait(kForever), std::runtime_error);
  EXPECT_TRUE(calls.failure());
  EXPECT_FALSE(executed);
}

TEST(CallQueue, SeveralThreadsWaitForIt) {
  std::latch released(1);
  CallQueue calls;
  calls.start([&] { released.wait(); });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(calls.wait(kForever)); });
  }
  released.count_down();
  for (std::thread& thread : threads) thread.join();
}

TEST(CallQueue, TheDestructorWaitsForTheCallThatIsExecuted) {
  bool done = false;
  {
    CallQueue calls;
    std::latch begun(1);
    calls.start([&] {
      begun.count_down();
      done = true;
    });
    begun.wait();
  }
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace thinwire::c_api
