// Events in real and in virtual time. The expected times are exact where time is virtual.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "testing/runtimes.h"
#include "thinwire/error.h"

namespace thinwire::transport {
namespace {

constexpr double kNear = 1e-8;  // seconds; the simulator rounds each event to 1 ns
constexpr Seconds kLong{100};   // longer than any test waits

class SimEvent : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  }
};

TEST(Event, NotifyBeforeWaitIsNotLost) {
  test::on_each_runtime([](Runtime& runtime) {
    const auto event = runtime.make_event();
    EXPECT_FALSE(event->wait(Seconds(0))) << "a new event is not set";
    event->notify();
    event->notify();
    EXPECT_TRUE(event->wait(kLong));
    EXPECT_FALSE(event->wait(Seconds(0))) << "two notifications count as one";
    event->notify();
    EXPECT_TRUE(event->wait(Seconds(0))) << "a timeout of 0 still checks the flag";
    EXPECT_FALSE(event->wait(Seconds(-1)));
  });
}

TEST(Event, AWaitEndsAtItsDeadline) {
  test::on_each_runtime([](Runtime& runtime) {
    const auto event = runtime.make_event();
    const Seconds start = runtime.now(), timeout{0.02};
    EXPECT_FALSE(event->wait(timeout));
    const double waited = (runtime.now() - start).count();
    EXPECT_GE(waited, timeout.count() - kNear);
    if (runtime.simulated()) {
      EXPECT_NEAR(waited, timeout.count(), kNear);
    }
  });
}

TEST(Event, ATaskWakesAnother) {
  test::on_each_runtime([](Runtime& runtime) {
    const auto event = runtime.make_event();
    const Seconds start = runtime.now(), delay{0.02};
    bool ready = false;
    const auto task = runtime.launch([&] {
      runtime.sleep(delay);
      ready = true;
      event->notify();
    });
    EXPECT_TRUE(event->wait(kLong));
    EXPECT_TRUE(ready);
    if (runtime.simulated()) {
      EXPECT_NEAR((runtime.now() - start).count(), delay.count(), kNear);
    }
  });
}

TEST(Event, ManyTasksMayNotify) {
  test::on_each_runtime([](Runtime& runtime) {
    constexpr int kTasks = 3, kTimes = 500;
    const auto event = runtime.make_event();
    std::atomic<int> count{0};
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < kTasks; ++i) {
      tasks.push_back(runtime.launch([&] {
        for (int turn = 0; turn < kTimes; ++turn) {
          ++count;
          event->notify();
        }
      }));
    }
    while (count < kTasks * kTimes) {
      ASSERT_TRUE(event->wait(kLong));
    }
  });
}

TEST(Event, TheWaiterMayDestroyItAtOnce) {
  test::on_each_runtime([](Runtime& runtime) {
    for (int turn = 0; turn < 200; ++turn) {
      auto event = runtime.make_event();
      const auto task = runtime.launch([raw = event.get()] { raw->notify(); });
      ASSERT_TRUE(event->wait(kLong));
      event.reset();
    }
  });
}

// Two tasks wake each other in turn. Each notification must be seen exactly once.
TEST(Event, TasksTakeTurns) {
  test::on_each_runtime([](Runtime& runtime) {
    constexpr int kTurns = 300;
    const auto ping = runtime.make_event(), pong = runtime.make_event();
    int ball = 0;
    const auto task = runtime.launch([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        if (!ping->wait(kLong)) return;
        ++ball;
        pong->notify();
      }
    });
    for (int turn = 0; turn < kTurns; ++turn) {
      ping->notify();
      ASSERT_TRUE(pong->wait(kLong));
      ASSERT_EQ(ball, turn + 1);
    }
  });
}

// A notification at exactly the time of the deadline is seen by that wait or by the next one, and
// by no other.
TEST_F(SimEvent, ANotificationAtTheDeadlineCountsOnce) {
  for (const bool task_first : {true, false}) {
    test::on_runtime("sim", [&](Runtime& runtime) {
      const auto event = runtime.make_event();
      const auto notify = [&] {
        runtime.sleep(Seconds(1));
        event->notify();
      };
      std::optional<bool> in_time;
      std::unique_ptr<Task> task;
      if (task_first) {
        task = runtime.launch(notify);
        in_time = event->wait(Seconds(1));
      } else {
        task = runtime.launch([&] { in_time = event->wait(Seconds(1)); });
        notify();
      }
      task->join();
      const bool next = event->wait(Seconds(0));
      EXPECT_NE(*in_time, next);
      const Seconds start = runtime.now();
      EXPECT_FALSE(event->wait(Seconds(1)));
      EXPECT_NEAR((runtime.now() - start).count(), 1, kNear);
    });
  }
}

// Simulated tasks share a thread, and therefore the C++ runtime's record of exceptions being
// handled.
TEST_F(SimEvent, MayBeUsedWhileAnExceptionIsHandled) {
  test::on_runtime("sim", [](Runtime& runtime) {
    const auto event = runtime.make_event();
    const auto task = runtime.launch([&] {
      try {
        throw Error("other");
      } catch (const Error&) {
        event->notify();
        runtime.sleep(Seconds(1));
      }
    });
    try {
      try {
        throw Error("mine");
      } catch (const Error&) {
        EXPECT_TRUE(event->wait(kLong));
        throw;
      }
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "mine");
    }
  });
}

}  // namespace
}  // namespace thinwire::transport
