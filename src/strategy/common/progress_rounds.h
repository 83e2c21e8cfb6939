// ProgressRounds in the background: while workers train asynchronously, a task of each tells the
// others how far it is, again and again, so that all agree on when the run is over. A strategy may
// do more in each round.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "thinwire/transport.h"

namespace thinwire::strategy {

// A round begins when every worker has taken its turn: when it has made `period` steps since the
// last one, or when others would have made so many in 1.5 times that time, so that nobody is held
// up by a worker in a long step. All tasks leave in the same round: once all workers together have
// trained on `target` samples, or once all of them asked to stop.
class ProgressRounds {
 public:
  // Done in each round after the news, except in the last.
  using Work = std::function<void(Transport& lane)>;

  explicit ProgressRounds(Work work = {}) : work_(std::move(work)) {}
  // Leaves after the round that is going on; peers learn of it when this rank has failed.
  ~ProgressRounds();

  // By all ranks, once. A target of 0 is never reached.
  void open(Transport& wire, std::uint64_t target);

  // The rest is for the training thread. What was trained on before the start counts, too.
  void start(std::uint64_t samples, std::uint64_t global_samples);
  // A step ended that took so long. Throws what made the task fail.
  void stepped(Seconds duration, std::uint64_t samples);
  // All ranks call it; returns when the tasks of all have left. start() may follow.
  void stop();
  // The model of this worker is not finite: the tasks of all fail in the next round.
  void report_not_finite() noexcept { not_finite_ = true; }
  void rethrow_failure();

  void set_period(std::uint64_t steps) noexcept { period_ = steps; }
  // How long to wait before looking again whether a round is over.
  Seconds poll_interval() const noexcept;

  bool started() const noexcept { return task_ != nullptr; }
  bool target_reached() const noexcept { return target_ > 0 && global_samples_ >= target_; }
  std::uint64_t samples() const noexcept { return samples_; }  // of this worker
  std::uint64_t global_samples() const noexcept { return global_samples_; }
  std::uint64_t completed() const noexcept { return completed_; }          // with their work
  std::uint64_t overlapped_steps() const noexcept { return overlapped_; }  // made during the work
  Seconds work_time() const noexcept { return Seconds(work_seconds_); }    // of one round, smoothed
  Seconds step_time() const noexcept { return Seconds(own_step_); }  // of this worker, smoothed

 private:
  void run();
  void await_turn();
  bool exchange_progress();  // whether the rounds go on
  void do_work();

  Work work_;
  std::unique_ptr<Transport> lane_;
  std::uint64_t target_ = 0;

  // Written by the training thread.
  std::atomic<std::uint64_t> steps_{0}, samples_{0}, period_{1};
  std::atomic<double> own_step_{0};  // seconds
  std::atomic<bool> vote_{false}, not_finite_{false}, abandoned_{false};
  // Written by the task.
  std::atomic<std::uint64_t> global_samples_{0}, completed_{0}, overlapped_{0};
  std::atomic<double> mean_step_{0}, work_seconds_{0};
  std::uint64_t steps_seen_ = 0;  // at the last turn

  std::unique_ptr<Task> task_;  // last: it uses the members above
};

}  // namespace thinwire::strategy
