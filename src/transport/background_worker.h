// One task that executes jobs in the order in which they were posted, in real or in virtual time.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "thinwire/transport.h"

namespace thinwire::transport {

// The worker has one owner: the task that calls its methods. Jobs run on the worker's own task,
// which the first post() launches and which waits for further jobs, so that later jobs start
// without a new thread. A job must not call methods of its worker, and every wait inside a job must
// have a deadline.
//
// Jobs form a sequence in which later jobs depend on earlier ones. When a job throws, jobs that the
// owner posts before it knows of the failure do not run; waiting for any of them throws the same
// exception. The owner gets to know of it from wait() or drain(); jobs that it posts afterwards
// run.
class BackgroundWorker {
 public:
  using Job = std::function<void()>;
  // The number of a job: 1, 2, ... in the order of posting. Ticket 0 stands for no job, which is
  // finished and did not fail.
  using Ticket = std::uint64_t;

  // The runtime must outlive the worker. Nothing is launched yet.
  explicit BackgroundWorker(Runtime& runtime);
  // Waits for the job that is running, and discards the jobs that have not begun and every failure.
  ~BackgroundWorker();
  BackgroundWorker(const BackgroundWorker&) = delete;
  BackgroundWorker& operator=(const BackgroundWorker&) = delete;

  // Appends a job and returns at once. It allocates nothing once as many jobs have been pending at
  // a time as ever will be, provided that the job fits into a std::function without allocation (a
  // lambda with two pointers does). Throws, without a trace, if the task cannot be launched.
  Ticket post(Job job);
  // Returns whether the job has run, failed or been skipped. Never waits.
  bool finished(Ticket ticket) const;
  // Waits until finished(ticket), then throws what the job threw, or the exception because of which
  // it was skipped. Several calls for one ticket throw the same, until another job fails or drain()
  // is called. Throws Error if the job has not ended within Transport::kLongestTimeout.
  void wait(Ticket ticket);
  // Waits until all posted jobs are finished, and discards every failure.
  void drain() noexcept;

 private:
  void launch();
  void run();
  bool take_jobs();
  void execute(Job& job);
  bool await(Ticket ticket);

  static constexpr Ticket kNoTicket = 0;
  static constexpr Ticket kAllFollowing = UINT64_MAX;

  Runtime& runtime_;
  std::unique_ptr<Event> posted_event_;    // wakes the task: a job was posted, or the owner leaves
  std::unique_ptr<Event> finished_event_;  // wakes the owner: a job is finished

  // Guarded by mutex_, which is never held during a notify() or wait() of an event.
  mutable std::mutex mutex_;
  std::vector<Job> queue_;  // posted, not yet taken by the task
  Ticket posted_ = kNoTicket, finished_ = kNoTicket;
  bool has_task_ = false;  // a task takes the jobs of the queue
  bool leaving_ = false;
  std::exception_ptr failure_;  // of job first_failed_; the jobs up to last_failed_ are skipped
  Ticket first_failed_ = kNoTicket, last_failed_ = kNoTicket;

  std::vector<Job> taken_;      // used by the task alone
  std::unique_ptr<Task> task_;  // last: it uses the members above
};

}  // namespace thinwire::transport
