// Real time and real threads.
#include <exception>
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

class SystemRuntime final : public Runtime {
 public:
  Seconds now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
  void sleep(Seconds duration) override { std::this_thread::sleep_for(duration); }
  std::unique_ptr<Task> launch(std::function<void()> work) override {
    return std::make_unique<ThreadTask>(std::move(work));
  }
};

}  // namespace

Runtime& system_runtime() {
  static SystemRuntime runtime;  // stateless
  return runtime;
}

}  // namespace thinwire
