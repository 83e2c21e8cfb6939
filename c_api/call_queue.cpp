#include "c_api/call_queue.h"

#include <utility>

namespace thinwire::c_api {

CallQueue::CallQueue() : thread_([this] { run(); }) {}

CallQueue::~CallQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    calls_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void CallQueue::start(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    calls_.push_back(std::move(call));
  }
  changed_.notify_all();
}

bool CallQueue::idle() const {
  const std::lock_guard lock(mutex_);
  return calls_.empty() && !executing_;
}

bool CallQueue::wait(double seconds) {
  std::unique_lock lock(mutex_);
  const auto idle = [this] { return calls_.empty() && !executing_; };
  if (!wait_limited(changed_, lock, seconds, idle)) return false;
  if (failure_) std::rethrow_exception(failure_);
  return true;
}

std::exception_ptr CallQueue::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void CallQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !calls_.empty(); });
    if (ending_) return;
    const std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    executing_ = true;
    lock.unlock();
    std::exception_ptr failure;
    try {
      call();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    executing_ = false;
    if (failure) {
      failure_ = failure;
      calls_.clear();
    }
    changed_.notify_all();
  }
}

}  // namespace thinwire::c_api
