#include "transport/background_worker.h"

#include <fmt/format.h>

#include <utility>

#include "thinwire/error.h"

namespace thinwire::transport {

BackgroundWorker::BackgroundWorker(Runtime& runtime)
    : runtime_(runtime),
      posted_event_(runtime.make_event()),
      finished_event_(runtime.make_event()) {}

BackgroundWorker::~BackgroundWorker() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  posted_event_->notify();
  task_.reset();
}

BackgroundWorker::Ticket BackgroundWorker::post(Job job) {
  Ticket ticket = kNoTicket;
  bool had_task = false;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(job));
    ticket = ++posted_;
    had_task = std::exchange(has_task_, true);
  }
  if (had_task) {
    posted_event_->notify();
  } else {
    launch();
  }
  return ticket;
}

void BackgroundWorker::launch() {
  try {
    task_ = runtime_.launch([this] { run(); });
  } catch (...) {
    const std::lock_guard lock(mutex_);
    has_task_ = false;
    queue_.pop_back();
    --posted_;
    throw;
  }
}

bool BackgroundWorker::finished(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return finished_ >= ticket;
}

void BackgroundWorker::wait(Ticket ticket) {
  if (!await(ticket)) {
    throw Error(fmt::format("background worker: job {} did not end in time ({:.0f} s)", ticket,
                            Transport::kLongestTimeout.count()));
  }
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_ || ticket < first_failed_ || ticket > last_failed_) return;
    if (last_failed_ == kAllFollowing) last_failed_ = posted_;
    failure = failure_;
  }
  std::rethrow_exception(failure);
}

void BackgroundWorker::drain() noexcept {
  // Only the owner posts, so posted_ does not change here.
  while (!await(posted_)) {
  }
  const std::lock_guard lock(mutex_);
  failure_ = nullptr;
}

// Returns false if the job has not ended within the longest timeout.
bool BackgroundWorker::await(Ticket ticket) {
  while (!finished(ticket)) {
    if (!finished_event_->wait(Transport::kLongestTimeout)) return finished(ticket);
  }
  return true;
}

void BackgroundWorker::run() {
  while (take_jobs()) {
    for (Job& job : taken_) execute(job);
    taken_.clear();
  }
}

// Waits for jobs and moves them from the queue to taken_. Returns false if the task is to end: the
// worker is being destroyed, or nothing was posted for kLongestTimeout. In the latter case a later
// post() launches another task. So this wait has a deadline, too.
bool BackgroundWorker::take_jobs() {
  bool notified = true;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (leaving_) return false;
      if (!queue_.empty()) {
        std::swap(queue_, taken_);
        return true;
      }
      if (!notified) {
        has_task_ = false;
        return false;
      }
    }
    notified = posted_event_->wait(Transport::kLongestTimeout);
  }
}

void BackgroundWorker::execute(Job& job) {
  bool skipped = false;
  {
    const std::lock_guard lock(mutex_);
    const Ticket ticket = finished_ + 1;
    skipped = leaving_ || (failure_ && ticket <= last_failed_);
  }
  std::exception_ptr thrown;
  if (!skipped) {
    try {
      job();
    } catch (...) {
      thrown = std::current_exception();
    }
  }
  job = nullptr;  // The owner may rely on this: when a job is finished, its captures are destroyed.
  {
    const std::lock_guard lock(mutex_);
    ++finished_;
    if (thrown) {
      failure_ = std::move(thrown);
      first_failed_ = finished_;
      last_failed_ = kAllFollowing;
    }
  }
  finished_event_->notify();
}

}  // namespace thinwire::transport
