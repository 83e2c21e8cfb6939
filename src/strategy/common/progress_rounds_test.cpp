// Tests of progress rounds in virtual time: every change is noticed without a delay.
#include "strategy/common/progress_rounds.h"

#include <gtest/gtest.h>

#include "testing/expect.h"
#include "testing/runtimes.h"

namespace thinwire::strategy {
namespace {

constexpr double kNear = 1e-8;  // seconds; the simulator rounds each event to 1 ns
constexpr Seconds kStep{0.1};

class Rounds : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  }
  static void simulate(int workers, const Worker& worker) {
    JoinOptions options;
    options.size = workers;
    run_workers("sim", options, worker);
  }
};

TEST_F(Rounds, BeginWithTheStepThatWasMissing) {
  simulate(3, [](Transport& wire) {
    std::vector<double> began;
    ProgressRounds rounds([&](Transport& lane) { began.push_back(lane.now().count()); });
    rounds.open(wire, 0);
    rounds.start(0, 0);
    rounds.set_period(2);
    for (int step = 0; step < 8; ++step) {
      wire.sleep(kStep);
      rounds.stepped(kStep, 1);
    }
    wire.sleep(kStep / 2);  // so that the last round is not the one in which all stop
    rounds.stop();
    ASSERT_EQ(began.size(), 4u);
    for (std::size_t i = 0; i < began.size(); ++i) {
      EXPECT_NEAR(began[i], 2 * kStep.count() * static_cast<double>(i + 1), kNear);
    }
    EXPECT_EQ(rounds.completed(), 4u);
    EXPECT_EQ(rounds.global_samples(), 24u);
  });
}

// Rank 1 is in a long step when the others are ready for the second round.
TEST_F(Rounds, BeginWithoutAWorkerInALongStep) {
  simulate(4, [](Transport& wire) {
    std::vector<double> began;
    ProgressRounds rounds([&](Transport& lane) { began.push_back(lane.now().count()); });
    rounds.open(wire, 0);
    rounds.start(0, 0);
    for (int step = 0; step < 5; ++step) {
      const Seconds duration = wire.rank() == 1 && step == 1 ? 4 * kStep : kStep;
      wire.sleep(duration);
      rounds.stepped(kStep, 1);
    }
    rounds.stop();
    ASSERT_GE(began.size(), 2u);
    EXPECT_NEAR(began[0], kStep.count(), kNear);
    EXPECT_NEAR(began[1], 2.5 * kStep.count(), kNear) << "1.5 steps after the first round";
  });
}

TEST_F(Rounds, AWaitEndsWithTheRound) {
  simulate(2, [](Transport& wire) {
    ProgressRounds rounds([](Transport& lane) { lane.sleep(Seconds(0.03)); });
    rounds.open(wire, 0);
    rounds.start(0, 0);
    wire.sleep(kStep);
    rounds.stepped(kStep, 1);
    while (rounds.completed() == 0) rounds.wait_for_round();
    EXPECT_NEAR(wire.now().count(), kStep.count() + 0.03, kNear);
    rounds.stop();
  });
}

TEST_F(Rounds, AWaitEndsWithTheFailureOfTheTask) {
  simulate(2, [](Transport& wire) {
    ProgressRounds rounds([](Transport& lane) {
      lane.sleep(Seconds(0.03));
      throw Error("planned");
    });
    rounds.open(wire, 0);
    rounds.start(0, 0);
    wire.sleep(kStep);
    rounds.stepped(kStep, 1);
    const auto error = test::must_throw<Error>([&] {
      for (int turn = 0; turn < 3; ++turn) {
        rounds.wait_for_round();
        rounds.rethrow_failure();
      }
    });
    EXPECT_STREQ(error.what(), "planned");
    EXPECT_NEAR(wire.now().count(), kStep.count() + 0.03, kNear);
  });
}

TEST_F(Rounds, MayBeDestroyedWhileTheTaskWaitsForItsTurn) {
  simulate(2, [](Transport& wire) {
    {
      ProgressRounds rounds;
      rounds.open(wire, 0);
      rounds.start(0, 0);
      wire.sleep(kStep);
    }
    EXPECT_NEAR(wire.now().count(), kStep.count(), kNear);
  });
}

TEST_F(Rounds, EndWhenTheTargetIsReached) {
  simulate(3, [](Transport& wire) {
    ProgressRounds rounds;
    rounds.open(wire, 9);
    rounds.start(0, 0);
    int steps = 0;
    for (; !rounds.target_reached(); ++steps) {
      wire.sleep(kStep);
      rounds.stepped(kStep, 1);
    }
    EXPECT_LE(steps, 4);
    EXPECT_GE(rounds.global_samples(), 9u);
    rounds.stop();
    EXPECT_FALSE(rounds.started());
  });
}

}  // namespace
}  // namespace thinwire::strategy
