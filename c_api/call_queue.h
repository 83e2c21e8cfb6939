// One thread that executes calls in the order in which they were started.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace thinwire::c_api {

// Thread-safe. When a call throws, the calls that follow it, also those that are started later, are
// discarded.
class CallQueue {
 public:
  CallQueue();
  // Waits for the call that is being executed, and discards the others.
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  // Appends a call and returns at once.
  void start(std::function<void()> call);
  // Returns whether no call is waiting or being executed.
  bool idle() const;
  // Waits until idle() for at most `seconds`, for ever if it is negative. Returns false if the time
  // has passed first. If a call has thrown, throws that every time.
  bool wait(double seconds);
  // Returns what a call has thrown, or null.
  std::exception_ptr failure() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  std::exception_ptr failure_;
  bool executing_ = false, ending_ = false;
  std::thread thread_;  // last: it uses the members above
};

// Waits on `changed` until `done()`. The time limit is as in CallQueue::wait().
template <class Done>
bool wait_limited(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                  double seconds, Done done) {
  constexpr double kLongest = 1e8;  // a longer time, and one that is not a number, is for ever
  if (!(seconds >= 0 && seconds < kLongest)) {
    changed.wait(lock, done);
    return true;
  }
  return changed.wait_for(lock, std::chrono::duration<double>(seconds), done);
}

}  // namespace thinwire::c_api
