#include "strategy/common/progress_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "strategy/common/consensus.h"
#include "thinwire/collective.h"

namespace thinwire::strategy {
namespace {

constexpr double kPatience = 1.5;   // times the time that `period` steps take an average worker
constexpr double kSmoothing = 0.9;  // share of the past in a smoothed time

double smoothed(double past, double now) {
  return past == 0 ? now : kSmoothing * past + (1 - kSmoothing) * now;
}

std::uint64_t nanoseconds(double seconds) {
  return static_cast<std::uint64_t>(std::max(0.0, seconds) * 1e9);
}

// Calls `action` when it goes out of scope, also because of an exception.
template <class Action>
class AtExit {
 public:
  explicit AtExit(Action action) : action_(std::move(action)) {}
  ~AtExit() { action_(); }
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;

 private:
  Action action_;
};

}  // namespace

ProgressRounds::~ProgressRounds() {
  abandoned_ = true;
  if (turn_changed_) turn_changed_->notify();
}

void ProgressRounds::open(Transport& wire, std::uint64_t target) {
  lane_ = wire.lane();
  target_ = target;
  turn_changed_ = wire.runtime().make_event();
  round_ended_ = wire.runtime().make_event();
}

void ProgressRounds::start(std::uint64_t samples, std::uint64_t global_samples) {
  samples_ = samples;
  global_samples_ = global_samples;
  vote_ = false;
  steps_seen_ = steps_.load();
  ended_ = false;
  if (!target_reached()) task_ = lane_->launch([this] { run(); });
}

void ProgressRounds::stepped(Seconds duration, std::uint64_t samples) {
  // A much longer time is no step: the worker tested the model or wrote a checkpoint meanwhile.
  constexpr double kLongest = 4;
  const double longest = own_step_ > 0 ? kLongest * own_step_ : duration.count();
  own_step_ = smoothed(own_step_, std::min(duration.count(), longest));
  samples_ += samples;
  ++steps_;
  if (has_turn()) turn_changed_->notify();
  rethrow_failure();
}

void ProgressRounds::rethrow_failure() {
  if (task_ && ended_) task_->join();
}

void ProgressRounds::wait_for_round() {
  if (task_ && !ended_) round_ended_->wait(lane_->timeout());
}

void ProgressRounds::stop() {
  vote_ = true;
  if (!task_) return;
  turn_changed_->notify();
  task_->join();
  task_.reset();
}

void ProgressRounds::set_period(std::uint64_t steps) {
  // A shorter period may give this worker its turn, and the period decides on its patience.
  if (period_.exchange(steps) != steps && task_) turn_changed_->notify();
}

void ProgressRounds::run() {
  const AtExit end([this] {
    ended_ = true;
    round_ended_->notify();
  });
  while (true) {
    await_turn();
    if (abandoned_ || !exchange_progress()) return;
    if (work_) do_work();
    ++completed_;
    round_ended_->notify();
  }
}

bool ProgressRounds::has_turn() const noexcept {
  return vote_ || abandoned_ || steps_ - steps_seen_ >= period_;
}

// Returns how long this worker waits for its own steps before it joins a round without them.
Seconds ProgressRounds::patience() const noexcept {
  const double seconds = kPatience * static_cast<double>(period_.load()) * mean_step_;
  return seconds > 0 ? Seconds(seconds) : Transport::kLongestTimeout;
}

void ProgressRounds::await_turn() {
  const Seconds start = lane_->now();
  while (!has_turn()) {
    const Seconds remaining = patience() - (lane_->now() - start);
    if (remaining <= Seconds(0) || !turn_changed_->wait(remaining)) break;
  }
  steps_seen_ = steps_.load();
}

// Returns whether another round follows.
bool ProgressRounds::exchange_progress() {
  enum { samples, votes, not_finite, step_time, kCount };
  std::array<std::uint64_t, kCount> progress{};
  progress[samples] = samples_;
  progress[votes] = vote_ ? 1 : 0;
  progress[not_finite] = not_finite_ ? 1 : 0;
  progress[step_time] = nanoseconds(own_step_);
  allreduce_sum(*lane_, std::span(progress));
  const auto workers = static_cast<std::uint64_t>(lane_->size());
  mean_step_ = static_cast<double>(progress[step_time]) * 1e-9 / static_cast<double>(workers);
  global_samples_ = progress[samples];
  if (progress[not_finite] > 0) {
    throw diverged(fmt::format("the models of {} of {} workers are not finite",
                               progress[not_finite], workers));
  }
  return progress[votes] < workers && !target_reached();
}

void ProgressRounds::do_work() {
  const Seconds start = lane_->now();
  const std::uint64_t steps = steps_;
  work_(*lane_);
  overlapped_ += steps_ - steps;
  work_seconds_ = smoothed(work_seconds_, (lane_->now() - start).count());
}

}  // namespace thinwire::strategy
