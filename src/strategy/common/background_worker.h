// A task that stands by: one piece of work at a time, beside the caller.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "thinwire/transport.h"

namespace thinwire::strategy {

// The task waits for the next piece, so that starting one allocates nothing. In simulated time only
// messages and the clock can wake a task: there every piece is a task of its own.
class BackgroundWorker {
 public:
  BackgroundWorker(Runtime& runtime, std::function<void()> work)
      : runtime_(runtime), work_(std::move(work)) {}
  ~BackgroundWorker();  // waits for the piece under way

  void start();          // while no piece is under way
  void wait() noexcept;  // for the piece under way, if there is one
  void join();           // waits, then throws what the piece threw

 private:
  enum class State { idle, asked, leaving };

  void run();
  void do_piece() noexcept;

  Runtime& runtime_;
  std::function<void()> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::idle;   // guarded by mutex_
  std::exception_ptr failure_;  // of the last piece; whoever waited for it may look
  std::unique_ptr<Task> task_;  // last: it uses the members above
};

}  // namespace thinwire::strategy
