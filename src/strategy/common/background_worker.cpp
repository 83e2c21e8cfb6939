#include "strategy/common/background_worker.h"

#include <utility>

namespace thinwire::strategy {

BackgroundWorker::~BackgroundWorker() {
  wait();
  {
    const std::lock_guard lock(mutex_);
    state_ = State::leaving;
  }
  changed_.notify_all();
}

void BackgroundWorker::start() {
  failure_ = nullptr;  // of a piece that nobody joined
  if (runtime_.simulated()) {
    task_ = runtime_.launch([this] { do_piece(); });
    return;
  }
  if (!task_) task_ = runtime_.launch([this] { run(); });
  {
    const std::lock_guard lock(mutex_);
    state_ = State::asked;
  }
  changed_.notify_all();
}

void BackgroundWorker::wait() noexcept {
  if (runtime_.simulated()) {
    task_.reset();
    return;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ != State::asked; });
}

void BackgroundWorker::join() {
  wait();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void BackgroundWorker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return state_ != State::idle; });
    if (state_ == State::leaving) return;
    lock.unlock();
    do_piece();
    lock.lock();
    state_ = State::idle;
    changed_.notify_all();
  }
}

void BackgroundWorker::do_piece() noexcept {
  try {
    work_();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

}  // namespace thinwire::strategy
