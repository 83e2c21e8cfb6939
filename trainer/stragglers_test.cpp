#include "trainer/stragglers.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "trainer/test_run.h"

namespace thinwire::trainer {
namespace {

// The times of a synchronous step: all workers are in the exchange until the slowest has arrived
// and `transfer` is over.
std::vector<WorkerTimes> synchronous(const std::vector<double>& computes, double transfer) {
  const double slowest = std::ranges::max(computes);
  std::vector<WorkerTimes> times;
  for (const double compute : computes) {
    times.push_back({Seconds(compute), Seconds(slowest - compute + transfer)});
  }
  return times;
}

Seconds length(const std::vector<WorkerTimes>& times) { return times[0].busy + times[0].wire; }

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
  EXPECT_DOUBLE_EQ(late[1].waited.count(), 0.75);  // three of four waited for 1 s
}

TEST(Stragglers, AShortWaitIsNotReported) {
  const auto times = synchronous({1, 1.2, 1}, 1);  // 0.2 of 2.2 s
  EXPECT_TRUE(late_workers(times, length(times)).empty());
}

TEST(Stragglers, NoWorkerIsBlamedIfNoneWaits) {
  const std::vector<WorkerTimes> gossiping = {{Seconds(1), Seconds(0.1)},
                                              {Seconds(3), Seconds(0.1)}};
  EXPECT_TRUE(late_workers(gossiping, Seconds(3.1)).empty());
  EXPECT_TRUE(late_workers(std::vector<WorkerTimes>{{Seconds(5), Seconds(0)}}, Seconds(5)).empty());
}

// A data set on a slow disk: each example takes 10 ms to read.
class SlowToRead final : public Dataset {
 public:
  SlowToRead(const Dataset& data, Transport& wire) : data_(data), wire_(wire) {}
  ExampleShape shape() const override { return data_.shape(); }
  std::size_t size() const override { return data_.size(); }
  void read(std::size_t index, const Augmentation* augmentation,
            const ExampleSlot& slot) const override {
    wire_.sleep(Seconds(0.01));
    data_.read(index, augmentation, slot);
  }

 private:
  const Dataset& data_;
  Transport& wire_;
};

// This runs in simulated time, in which a worker reads its input itself.
TEST(Stragglers, OneThatWaitsForItsInputIsNamed) {
  if (std::ranges::find(transport_backends(), "sim", &TransportBackend::name) ==
      transport_backends().end()) {
    GTEST_SKIP() << "sim is not in this build";
  }
  TrainOptions options = options_for(4, 5);
  options.step_time = Seconds(0.01);
  JoinOptions join;
  join.size = 3;
  join.network = thinwire::Network::parse("1gbit,0.1ms");
  TrainResult result;
  run_workers("sim", join, [&](Transport& wire) {
    DataPair data = load_data("digits", 1);
    const std::unique_ptr<Dataset> fast = std::move(data.train);
    data.train = std::make_unique<SlowToRead>(*fast, wire);
    const TrainResult mine = train(wire, options, wire.rank() == 1 ? data : digits(), {});
    if (wire.rank() == 0) result = mine;
  });
  ASSERT_EQ(result.stragglers.size(), 1u);
  EXPECT_EQ(result.stragglers[0].rank, 1);
  EXPECT_NEAR(result.stragglers[0].waited.count(), 5 * 4 * 0.01, 0.01);
  EXPECT_NEAR(result.compute.count(), 5 * 0.01, 1e-6);
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
