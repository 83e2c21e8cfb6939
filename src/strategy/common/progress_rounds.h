// Progress rounds: while workers train asynchronously, a background task of each worker reports to
// the others how far it is, again and again, so that all agree on when the run is over. A strategy
// may do more work in each round.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "thinwire/transport.h"

namespace thinwire::strategy {

// A round is a collective operation of the tasks of all workers. A worker joins the next round when
// it has made `period` steps since the last one, or after 1.5 times the time in which an average
// worker makes them, so that a worker in a long step delays no other worker. All tasks end in the
// same round: the first one after which all workers together have trained on `target` samples, or
// in which all of them have asked to stop.
class ProgressRounds {
 public:
  // The task calls this function in each round except the last, after the workers have reported
  // their progress.
  using Work = std::function<void(Transport& lane)>;

  explicit ProgressRounds(Work work = {}) : work_(std::move(work)) {}
  // Ends the task after the round that is going on. The other ranks learn from the transport that
  // this rank has failed.
  ~ProgressRounds();

  // All ranks call it, once. A target of 0 is never reached.
  void open(Transport& wire, std::uint64_t target);

  // The methods below are for the training thread.

  // Starts the task, after open() or stop(). The arguments are the samples that this worker and all
  // workers together have trained on before. Does nothing if the target is reached.
  void start(std::uint64_t samples, std::uint64_t global_samples);
  // Reports that this worker has ended a step. Throws what made the task fail, if it has failed.
  void stepped(Seconds duration, std::uint64_t samples);
  // All ranks call it. Returns when the tasks of all ranks have ended; throws what made the task of
  // this rank fail.
  void stop();
  // Reports that the model of this worker is not finite: the tasks of all ranks fail in the next
  // round.
  void report_not_finite() noexcept { not_finite_ = true; }
  // Throws what made the task fail, if it has failed. Never waits for other ranks.
  void rethrow_failure();
  // Returns when the task has ended a round since the last call, or has ended itself, or after the
  // timeout of the transport, whichever is first. So the caller tests its own condition in a loop.
  void wait_for_round();

  // Sets how many steps this worker makes between two rounds.
  void set_period(std::uint64_t steps);

  // Returns whether the task was started and stop() was not called since.
  bool started() const noexcept { return task_ != nullptr; }
  bool target_reached() const noexcept { return target_ > 0 && global_samples_ >= target_; }
  // Return the samples that this worker, or all workers together, have trained on.
  std::uint64_t samples() const noexcept { return samples_; }
  std::uint64_t global_samples() const noexcept { return global_samples_; }
  // Returns how many rounds have ended with their work done.
  std::uint64_t completed() const noexcept { return completed_; }
  // Returns how many steps this worker has made during the work of rounds.
  std::uint64_t overlapped_steps() const noexcept { return overlapped_; }
  // Return the smoothed times of the work of one round and of one step of this worker.
  Seconds work_time() const noexcept { return Seconds(work_seconds_); }
  Seconds step_time() const noexcept { return Seconds(own_step_); }
  // Sets both, before start(), to those of a checkpoint.
  void restore_times(Seconds work, Seconds step) noexcept {
    work_seconds_ = work.count();
    own_step_ = step.count();
  }

 private:
  void run();
  void await_turn();
  bool has_turn() const noexcept;
  Seconds patience() const noexcept;
  bool exchange_progress();
  void do_work();

  Work work_;
  std::unique_ptr<Transport> lane_;
  std::uint64_t target_ = 0;
  std::unique_ptr<Event> turn_changed_;  // for the task: a condition of await_turn() changed
  std::unique_ptr<Event> round_ended_;   // for the training thread

  // Written by the training thread.
  std::atomic<std::uint64_t> steps_{0}, samples_{0}, period_{1};
  std::atomic<double> own_step_{0};  // seconds
  std::atomic<bool> vote_{false}, not_finite_{false}, abandoned_{false};
  // Written by the task.
  std::atomic<std::uint64_t> global_samples_{0}, completed_{0}, overlapped_{0};
  std::atomic<std::uint64_t> steps_seen_{0};  // at the last turn
  std::atomic<double> mean_step_{0}, work_seconds_{0};
  std::atomic<bool> ended_{false};  // the task does nothing any more

  std::unique_ptr<Task> task_;  // last: it uses the members above
};

}  // namespace thinwire::strategy
