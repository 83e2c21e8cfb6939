// Groups and sessions over the transport `threads`, which the thread sanitizer can follow.
#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <thread>

#include "c_api/bound_session.h"
#include "c_api/usage_error.h"
#include "thinwire/error.h"

namespace thinwire::c_api {
namespace {

using testing::HasSubstr;

constexpr double kForever = -1;

// Ranks of the transport `threads`, of which each joins by a Group of its own.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : ranks_(static_cast<std::size_t>(size)) {
    thread_ = std::thread([this, size] {
      JoinOptions options;
      options.size = size;
      try {
        run_workers("threads", options, [this](Transport& wire) { work(wire); });
      } catch (const std::exception&) {  // the group that failed reports it
      }
    });
  }
  ~ThreadRanks() { thread_.join(); }

  std::shared_ptr<Group> join(int rank) {
    JoinOptions options;
    options.rank = rank;
    options.size = static_cast<int>(ranks_.size());
    return std::make_shared<Group>(options, [this](const JoinOptions& own, const Worker& worker) {
      Rank& joining = ranks_[static_cast<std::size_t>(own.rank)];
      std::future<void> done = joining.done.get_future();
      joining.worker.set_value(&worker);
      done.get();
    });
  }

 private:
  struct Rank {
    std::promise<const Worker*> worker;
    std::promise<void> done;
  };

  void work(Transport& wire) {
    Rank& rank = ranks_[static_cast<std::size_t>(wire.rank())];
    try {
      (*rank.worker.get_future().get())(wire);
    } catch (...) {
      rank.done.set_exception(std::current_exception());
      throw;
    }
    rank.done.set_value();
  }

  std::vector<Rank> ranks_;
  std::thread thread_;
};

// Runs `work(group, rank)` on a thread for each rank, after all have joined.
template <class Work>
void on_groups(int size, Work work) {
  ThreadRanks ranks(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&ranks, &work, rank] {
      const std::shared_ptr<Group> group = ranks.join(rank);
      EXPECT_TRUE(group->wait(kForever));
      work(group, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

OpenOptions options_of(const char* strategy, std::size_t buckets) {
  OpenOptions out;
  out.session.strategy = strategy;
  out.session.buckets = buckets;
  out.session.run.steps = 10;
  out.layout = {{{"a", 0, {5, 8}}, {"b", 40, {20}}}, 60};
  return out;
}

// A session, its buffers, and calls that wait.
struct Trained {
  Trained(const std::shared_ptr<Group>& group, const char* strategy, std::size_t count)
      : session(group, options_of(strategy, count)), buckets(count) {
    session.begin(params, 0);
    wait();
  }
  void wait() {
    bool skipped = false;
    while (!session.wait(0.001, skipped)) {
    }
    EXPECT_FALSE(skipped);
  }
  void submit(float gradient) {
    std::fill(grads.begin(), grads.end(), gradient);
    for (std::size_t bucket = buckets; bucket-- > 0;) session.submit(bucket, params, grads);
  }
  void finish() {
    wait();
    session.finish_step(params, {1, 0.1});
    wait();
  }

  std::vector<float> params = std::vector<float>(60, 0), grads = std::vector<float>(60, 0);
  BoundSession session;
  std::size_t buckets;
};

TEST(ThreadsGroup, SessionsExchangeAtTheSameTime) {
  on_groups(3, [](const std::shared_ptr<Group>& group, int rank) {
    {
      Trained first(group, "dense", 2), second(group, "topk:density=0.1", 1),
          third(group, "lasgd", 1);
      for (int step = 0; step < 10; ++step) {
        first.submit(static_cast<float>(rank + step));
        second.submit(static_cast<float>(rank));
        third.submit(1);
        first.finish();
        EXPECT_EQ(first.grads, std::vector<float>(60, static_cast<float>(1 + step)));
        second.finish();
        third.finish();
        first.session.sum_metrics();
        first.wait();
        EXPECT_EQ(first.session.stats()["steps"], step + 1);
      }
      for (Trained* trained : {&first, &second, &third}) {
        trained->session.end(trained->params);
        trained->wait();
      }
    }
    group->leave();
    EXPECT_TRUE(group->wait(kForever));
  });
}

TEST(ThreadsGroup, ASubmitThatIsRefusedBeginsNoStep) {
  on_groups(2, [](const std::shared_ptr<Group>& group, int rank) {
    {
      Trained model(group, "dense", 1);
      EXPECT_THROW(model.session.submit(1, model.params, model.grads), UsageError);
      EXPECT_THROW(model.session.submit(0, model.params, {}), UsageError);
      model.wait();
      model.submit(static_cast<float>(rank));
      model.finish();
      EXPECT_EQ(model.grads[0], 0.5f);
    }
    group->leave();
    EXPECT_TRUE(group->wait(kForever));
  });
}

// The failure of one rank ends the wait of another, while further threads read log and state.
TEST(ThreadsGroup, ARankThatClosesEndsTheWaitOfTheOthers) {
  on_groups(2, [](std::shared_ptr<Group> group, int rank) {
    auto model = std::make_unique<Trained>(group, "dense", 2);
    if (rank == 1) {
      model.reset();
      group.reset();  // without a leave
      return;
    }
    model->submit(1);
    std::thread reader([&] {
      for (int i = 0; i < 100; ++i) group->log().take_oldest([](const auto*) {});
    });
    bool skipped = false;
    EXPECT_THROW(model->session.wait(kForever, skipped), TransportError);
    EXPECT_THROW(model->session.submit(0, model->params, model->grads), TransportError);
    reader.join();
  });
}

}  // namespace
}  // namespace thinwire::c_api
