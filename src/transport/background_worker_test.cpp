// Tests background jobs, in real and in virtual time.
#include "transport/background_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "testing/allocations.h"
#include "testing/expect.h"
#include "testing/runtimes.h"
#include "thinwire/error.h"

namespace thinwire::transport {
namespace {

using Ticket = BackgroundWorker::Ticket;
constexpr double kNear = 1e-8;  // seconds; the simulator rounds each event to 1 ns

TEST(BackgroundWorker, ExecutesJobsInOrder) {
  test::on_each_runtime([](Runtime& runtime) {
    BackgroundWorker worker(runtime);
    std::vector<int> done, expected(100);
    std::iota(expected.begin(), expected.end(), 0);
    Ticket last = 0;
    for (int job = 0; job < 100; ++job) {
      const Ticket ticket = worker.post([&done, job] { done.push_back(job); });
      EXPECT_EQ(ticket, last + 1);
      last = ticket;
      if (job % 7 == 0) worker.wait(ticket);
    }
    worker.wait(last);
    EXPECT_EQ(done, expected);
    EXPECT_TRUE(worker.finished(last));
    worker.wait(1);  // a second call for the same ticket
  });
}

TEST(BackgroundWorker, WaitsForOneTicket) {
  test::on_each_runtime([](Runtime& runtime) {
    const Seconds start = runtime.now(), step{0.01};
    BackgroundWorker worker(runtime);
    std::atomic<int> done{0};
    Ticket tickets[3];
    for (Ticket& ticket : tickets) {
      ticket = worker.post([&] {
        runtime.sleep(step);
        ++done;
      });
    }
    EXPECT_FALSE(worker.finished(tickets[2]));
    for (int job = 0; job < 3; ++job) {
      worker.wait(tickets[job]);
      EXPECT_GE(done, job + 1);
      if (!runtime.simulated()) continue;
      EXPECT_EQ(done, job + 1);
      EXPECT_NEAR((runtime.now() - start).count(), step.count() * (job + 1), kNear);
    }
  });
}

TEST(BackgroundWorker, RunsNextToItsOwner) {
  if (!test::has_backend("sim")) GTEST_SKIP() << "sim is not in this build";
  test::on_runtime("sim", [](Runtime& runtime) {
    BackgroundWorker worker(runtime);
    for (int step = 1; step <= 3; ++step) {
      const Ticket ticket = worker.post([&] { runtime.sleep(Seconds(1)); });
      runtime.sleep(Seconds(0.75));
      EXPECT_FALSE(worker.finished(ticket));
      worker.wait(ticket);
      EXPECT_NEAR(runtime.now().count(), step, kNear);
    }
  });
}

TEST(BackgroundWorker, AFailureReachesTheWaiterAndSkipsWhatWasPostedBefore) {
  test::on_each_runtime([](Runtime& runtime) {
    BackgroundWorker worker(runtime);
    std::vector<int> done;
    const Ticket first = worker.post([&] { done.push_back(1); });
    const Ticket failed = worker.post([] { throw WireError("planned"); });
    const Ticket skipped = worker.post([&] { done.push_back(3); });
    worker.wait(first);
    for (const Ticket ticket : {skipped, failed, skipped}) {
      EXPECT_STREQ(test::must_throw<WireError>([&] { worker.wait(ticket); }).what(), "planned");
    }
    worker.wait(first);
    worker.wait(worker.post([&] { done.push_back(4); }));
    EXPECT_EQ(done, (std::vector<int>{1, 4}));
    EXPECT_THROW(worker.wait(skipped), WireError)
        << "a later success must not clear the failure of an earlier job";
    const Ticket again = worker.post([] { throw Error("again"); });
    EXPECT_STREQ(test::must_throw<Error>([&] { worker.wait(again); }).what(), "again");
  });
}

TEST(BackgroundWorker, JobsThatFollowAFailureAreSkippedUntilTheOwnerKnowsOfIt) {
  test::on_each_runtime([](Runtime& runtime) {
    BackgroundWorker worker(runtime);
    const Ticket failed = worker.post([] { throw Error("planned"); });
    while (!worker.finished(failed)) runtime.sleep(Seconds(1e-3));
    bool ran = false;
    const Ticket next = worker.post([&] { ran = true; });
    EXPECT_THROW(worker.wait(next), Error);
    EXPECT_FALSE(ran);
  });
}

TEST(BackgroundWorker, DrainDropsFailures) {
  test::on_each_runtime([](Runtime& runtime) {
    BackgroundWorker worker(runtime);
    worker.drain();
    const Ticket failed = worker.post([] { throw Error("planned"); });
    worker.drain();
    EXPECT_TRUE(worker.finished(failed));
    worker.wait(failed);
    bool ran = false;
    worker.wait(worker.post([&] { ran = true; }));
    EXPECT_TRUE(ran);
  });
}

// The catch block of a failed step does the same.
TEST(BackgroundWorker, MayBeDrainedWhileAnExceptionIsHandled) {
  test::on_each_runtime([](Runtime& runtime) {
    BackgroundWorker worker(runtime);
    const auto error = test::must_throw<Error>([&] {
      worker.post([&] {
        runtime.sleep(Seconds(1e-3));
        throw WireError("of the job");
      });
      try {
        throw Error("of the step");
      } catch (...) {
        worker.drain();
        throw;
      }
    });
    EXPECT_STREQ(error.what(), "of the step");
  });
}

TEST(BackgroundWorker, DestructionWaitsForTheRunningJobAndDropsTheOthers) {
  test::on_each_runtime([](Runtime& runtime) {
    const auto running = runtime.make_event();
    bool first = false, second = false;
    {
      BackgroundWorker worker(runtime);
      worker.post([&] {
        running->notify();
        runtime.sleep(Seconds(0.05));
        first = true;
      });
      worker.post([&] { second = true; });
      EXPECT_TRUE(running->wait(Seconds(100)));
    }
    EXPECT_TRUE(first);
    EXPECT_FALSE(second);
  });
}

TEST(BackgroundWorker, MayBeDestroyedAtAnyTime) {
  test::on_each_runtime([](Runtime& runtime) {
    { const BackgroundWorker unused(runtime); }
    for (int turn = 0; turn < 100; ++turn) {
      BackgroundWorker busy(runtime);
      for (int job = 0; job < turn % 4; ++job) busy.post([] {});
    }
    BackgroundWorker idle(runtime);
    idle.wait(idle.post([] {}));
    BackgroundWorker failed(runtime);
    failed.post([] { throw Error("an error for which no one waits"); });
  });
}

TEST(BackgroundWorker, AllocatesNothingAfterTheFirstJobs) {
  test::on_runtime("threads", [](Runtime& runtime) {
    constexpr int kJobs = 4, kSteps = 50;
    BackgroundWorker worker(runtime);
    std::uint64_t by_task = 0;
    const auto step = [&] {
      Ticket last = 0;
      for (int job = 0; job < kJobs; ++job) {
        last = worker.post([&by_task] { by_task = test::allocations(); });
      }
      worker.wait(last);
    };
    // Both queues of the worker have had all jobs of a step at once. They change places each time
    // that the task takes jobs: for the first job, for the others, and for the one at the end.
    for (int turn = 0; turn < 2; ++turn) {
      const auto running = runtime.make_event(), gate = runtime.make_event();
      worker.post([&] { running->notify(), gate->wait(Seconds(100)); });
      running->wait(Seconds(100));
      for (int job = 0; job < kJobs; ++job) worker.post([] {});
      gate->notify();
      worker.drain();
      worker.wait(worker.post([] {}));
    }
    step();
    const std::uint64_t by_owner = test::allocations(), by_task_before = by_task;
    for (int turn = 0; turn < kSteps; ++turn) step();
    EXPECT_EQ(test::allocations(), by_owner);
    EXPECT_EQ(by_task, by_task_before);
  });
}

// A runtime whose first event, for which an idle worker waits, always times out. While `refuse` is
// set, launch() throws.
class ImpatientRuntime final : public Runtime {
 public:
  explicit ImpatientRuntime(Runtime& inner) : inner_(inner) {}
  Seconds now() const override { return inner_.now(); }
  void sleep(Seconds duration) override { inner_.sleep(duration); }
  bool simulated() const override { return inner_.simulated(); }
  std::unique_ptr<Task> launch(std::function<void()> work) override {
    if (refuse) throw Error("no task");
    ++launched;
    return inner_.launch(std::move(work));
  }
  std::unique_ptr<Event> make_event() override {
    if (std::exchange(made_, true)) return inner_.make_event();
    return std::make_unique<Late>(inner_.make_event());
  }

  bool refuse = false;
  int launched = 0;

 private:
  struct Late final : Event {
    explicit Late(std::unique_ptr<Event> of) : event(std::move(of)) {}
    void notify() noexcept override { event->notify(); }
    bool wait(Seconds) override { return event->wait(Seconds(0)); }
    std::unique_ptr<Event> event;
  };
  Runtime& inner_;
  bool made_ = false;
};

TEST(BackgroundWorker, ATaskThatWasIdleForTooLongIsReplaced) {
  test::on_each_runtime([](Runtime& runtime) {
    ImpatientRuntime impatient(runtime);
    BackgroundWorker worker(impatient);
    int done = 0;
    for (int turn = 1; turn <= 200; ++turn) {
      worker.wait(worker.post([&] { ++done; }));
      ASSERT_EQ(done, turn);
      if (turn % 10 == 0) runtime.sleep(Seconds(1e-3));
    }
    EXPECT_GT(impatient.launched, 1);
  });
}

TEST(BackgroundWorker, ATaskThatCannotBeLaunchedLeavesNoTrace) {
  test::on_each_runtime([](Runtime& runtime) {
    ImpatientRuntime impatient(runtime);
    BackgroundWorker worker(impatient);
    impatient.refuse = true;
    bool ran = false;
    EXPECT_THROW(worker.post([&] { ran = true; }), Error);
    worker.drain();
    impatient.refuse = false;
    EXPECT_EQ(worker.post([] {}), 1u);
    worker.drain();
    EXPECT_FALSE(ran);
  });
}

}  // namespace
}  // namespace thinwire::transport
