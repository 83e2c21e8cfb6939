#include "strategy/common/gradient_guard.h"

#include <gtest/gtest.h>

#include "strategy/common/state.h"
#include "thinwire/launch.h"

namespace thinwire::strategy {
namespace {

// Calls `body` with a function that passes a gradient of that length to a guard and returns the
// length that it leaves.
template <class Body>
void guarded(int workers, Body body) {
  JoinOptions options;
  options.size = workers;
  run_workers("threads", options, [&](Transport& wire) {
    if (wire.rank() != 0) return;
    GradientGuard guard;
    int warnings = 0;
    const Layout layout{{{"all", 0, {4}}}, 4};
    const RunOptions run;
    Stats stats;
    const LogSink log = [&](LogLevel, std::string_view) { ++warnings; };
    std::uint64_t step = 0;
    body(guard, warnings, [&](double length) {
      std::vector<float> grads(4, static_cast<float>(length / 2));
      guard.limit({{wire, layout, run, stats, log}, step++, {}, grads}, 1);
      return norm(grads);
    });
  });
}

TEST(GradientGuard, LeavesGradientsOfUsualLengthAsTheyAre) {
  guarded(4, [](GradientGuard& guard, int& warnings, auto limited) {
    for (int step = 0; step < 500; ++step) {
      const double length = 1 + step % 5 * 0.5;  // up to 1.5 times the mean
      EXPECT_EQ(limited(length), length);
    }
    EXPECT_EQ(guard.rate(), 1);
    EXPECT_EQ(warnings, 0);
  });
}

// A run that learns fast at first has shorter and shorter gradients, and now and then a long one.
TEST(GradientGuard, MeasuresByTheWholeRun) {
  guarded(4, [](GradientGuard& guard, int&, auto limited) {
    for (int step = 0; step < 100; ++step) limited(4);
    for (int step = 0; step < 300; ++step) limited(0.01);
    EXPECT_FLOAT_EQ(static_cast<float>(limited(2)), 2);
    EXPECT_EQ(guard.rate(), 1);
  });
}

TEST(GradientGuard, ShortensALongOneAndNothingElse) {
  guarded(4, [](GradientGuard& guard, int&, auto limited) {
    for (int burst = 0; burst < 3; ++burst) {
      for (int step = 0; step < 100; ++step) limited(1);
      EXPECT_LT(limited(50), 4);
      EXPECT_EQ(limited(1), 1);
      EXPECT_EQ(guard.rate(), 1);
    }
  });
}

TEST(GradientGuard, LowersTheRateIfLongOnesFollowEachOtherAndRecovers) {
  guarded(4, [](GradientGuard& guard, int& warnings, auto limited) {
    for (int step = 0; step < 100; ++step) limited(1);
    limited(50);
    EXPECT_NEAR(limited(50), 3 * 0.7, 0.1);
    EXPECT_LT(limited(1), 0.75);
    for (int step = 0; step < 100; ++step) limited(1);
    EXPECT_EQ(guard.rate(), 1);
    EXPECT_EQ(warnings, 0);
  });
}

TEST(GradientGuard, LowersTheRateToThatOfOneBatchAndWarnsOnce) {
  guarded(4, [](GradientGuard& guard, int& warnings, auto limited) {
    for (int step = 0; step < 100; ++step) limited(1);
    for (int step = 0; step < 20; ++step) limited(1e6);
    EXPECT_EQ(guard.rate(), 0.25);
    EXPECT_EQ(warnings, 1);
    Payload state;
    base::ByteWriter writer(state);
    guard.save(writer);
    guard = GradientGuard();
    base::ByteReader reader(state, "a guard");
    guard.load(reader);
    for (int step = 0; step < 20; ++step) limited(1e6);
    EXPECT_EQ(warnings, 1) << "also after a resume";
  });
}

TEST(GradientGuard, DoesNotWarnAgainAfterAResume) {
  guarded(4, [](GradientGuard& guard, int& warnings, auto limited) {
    for (int step = 0; step < 100; ++step) limited(1);
    for (int step = 0; step < 20; ++step) limited(1e6);
    Payload state;
    base::ByteWriter writer(state);
    guard.save(writer);
    guard = GradientGuard();
    base::ByteReader reader(state, "a guard");
    guard.load(reader);
    for (int step = 0; step < 20; ++step) limited(1e9);
    EXPECT_EQ(warnings, 1);
  });
}

TEST(GradientGuard, ContinuesFromItsState) {
  guarded(4, [](GradientGuard& guard, int&, auto limited) {
    for (int step = 0; step < 30; ++step) limited(1 + step % 3);
    limited(20);
    Payload state;
    base::ByteWriter writer(state);
    guard.save(writer);
    const double rate = guard.rate(), next = limited(15);
    base::ByteReader reader(state, "a guard");
    guard.load(reader);
    reader.expect_end();
    EXPECT_EQ(guard.rate(), rate);
    EXPECT_EQ(limited(15), next);
    Payload foreign(64);
    base::ByteReader zeros(foreign, "a guard");
    EXPECT_THROW(guard.load(zeros), WireError);
  });
}

}  // namespace
}  // namespace thinwire::strategy
