// The runtime of real transports: the steady clock and threads.
#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "thinwire/transport.h"

namespace thinwire {
namespace {

class ThreadTask final : public Task {
 public:
  explicit ThreadTask(std::function<void()> work)
      : thread_([this, work = std::move(work)] {
          try {
            work();
          } catch (...) {
            thrown_ = std::current_exception();
          }
          finished_.store(true, std::memory_order_release);
        }) {}
  ~ThreadTask() override {
    if (thread_.joinable()) thread_.join();
  }

  bool finished() const noexcept override { return finished_.load(std::memory_order_acquire); }
  void join() override {
    if (thread_.joinable()) thread_.join();
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

 private:
  std::exception_ptr thrown_;
  std::atomic<bool> finished_{false};
  std::thread thread_;  // last: it uses the members above
};

class ThreadEvent final : public Event {
 public:
  void notify() noexcept override {
    const std::lock_guard lock(mutex_);
    set_ = true;
    // The lock is held, because the waiter may destroy this event as soon as it gets the lock.
    changed_.notify_one();
  }
  bool wait(Seconds timeout) override {
    using Clock = std::chrono::steady_clock;
    const Seconds longest = std::clamp(timeout, Seconds(0), Transport::kLongestTimeout);
    std::unique_lock lock(mutex_);
    if (!set_ && longest > Seconds(0)) {
      const auto deadline = Clock::now() + std::chrono::ceil<Clock::duration>(longest);
      changed_.wait_until(lock, deadline, [&] { return set_; });
    }
    return std::exchange(set_, false);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;  // guarded by mutex_
};

class SystemRuntime final : public Runtime {
 public:
  Seconds now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
  void sleep(Seconds duration) override { std::this_thread::sleep_for(duration); }
  std::unique_ptr<Task> launch(std::function<void()> work) override {
    return std::make_unique<ThreadTask>(std::move(work));
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<ThreadEvent>(); }
};

}  // namespace

Runtime& system_runtime() {
  static SystemRuntime runtime;  // It has no state.
  return runtime;
}

}  // namespace thinwire
