#include "trainer/stragglers.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace thinwire::trainer {
namespace {

// A synchronous step: everybody is in the exchange until the slowest has come and `transfer` is
// over.
std::vector<WorkerTimes> synchronous(const std::vector<double>& computes, double transfer) {
  const double slowest = std::ranges::max(computes);
  std::vector<WorkerTimes> times;
  for (const double compute : computes) {
    times.push_back({Seconds(compute), Seconds(slowest - compute + transfer)});
  }
  return times;
}

Seconds length(const std::vector<WorkerTimes>& times) { return times[0].compute + times[0].wire; }

TEST(Stragglers, OneThatComputesLongerIsNamedWithWhatItCost) {
  const auto times = synchronous({1, 1, 3, 1}, 1);
  const auto late = late_workers(times, length(times));
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].rank, 2);
  EXPECT_DOUBLE_EQ(late[0].compute_ratio, 3);
  EXPECT_DOUBLE_EQ(late[0].waited.count(), 2);
}

TEST(Stragglers, SeveralAreNamedWorstFirst) {
  const auto times = synchronous({2, 1, 3, 1, 1}, 0);
  const auto late = late_workers(times, length(times));
  ASSERT_EQ(late.size(), 2u);
  EXPECT_EQ(late[0].rank, 2);
  EXPECT_EQ(late[1].rank, 0);
  EXPECT_DOUBLE_EQ(late[1].waited.count(), 0.75);  // by three of four for 1 s
}

TEST(Stragglers, WhatCostsLittleIsNotWorthNaming) {
  const auto times = synchronous({1, 1.2, 1}, 1);  // 0.2 of 2.2 s
  EXPECT_TRUE(late_workers(times, length(times)).empty());
}

TEST(Stragglers, NobodyIsBlamedWhereNobodyWaits) {
  const std::vector<WorkerTimes> gossiping = {{Seconds(1), Seconds(0.1)},
                                              {Seconds(3), Seconds(0.1)}};
  EXPECT_TRUE(late_workers(gossiping, Seconds(3.1)).empty());
  EXPECT_TRUE(late_workers(std::vector<WorkerTimes>{{Seconds(5), Seconds(0)}}, Seconds(5)).empty());
}

RC_GTEST_PROP(Stragglers, TheSlowestIsNamedFirstOrNobodyIs, ()) {
  const auto hundredths =
      *rc::gen::suchThat(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 1000)),
                         [](const std::vector<int>& values) { return values.size() >= 2; });
  std::vector<double> computes;
  for (const int value : hundredths) computes.push_back(value / 100.0);
  const auto times = synchronous(computes, *rc::gen::inRange(0, 100) / 100.0);
  const auto late = late_workers(times, length(times));
  if (late.empty()) return;
  RC_ASSERT(computes[static_cast<std::size_t>(late[0].rank)] == std::ranges::max(computes));
  RC_ASSERT(std::ranges::is_sorted(late, std::greater<>(), &LateWorker::waited));
  for (const LateWorker& worker : late) {
    RC_ASSERT(worker.waited <= length(times) + Seconds(1e-9));
    RC_ASSERT(worker.waited > kWorthNaming * length(times));
  }
}

}  // namespace
}  // namespace thinwire::trainer
