#include "strategy/common/progress_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "thinwire/collective.h"

namespace thinwire::strategy {
namespace {

constexpr double kPatience = 1.5;      // of the time that `period` steps take others
constexpr double kSmoothing = 0.9;     // share of the past in a smoothed time
constexpr Seconds kFirstGlance{1e-3};  // while no step has been timed
constexpr Seconds kShortestGlance{50e-6};

double smoothed(double past, double now) {
  return past == 0 ? now : kSmoothing * past + (1 - kSmoothing) * now;
}

std::uint64_t nanoseconds(double seconds) {
  return static_cast<std::uint64_t>(std::max(0.0, seconds) * 1e9);
}

}  // namespace

ProgressRounds::~ProgressRounds() { abandoned_ = true; }

void ProgressRounds::open(Transport& wire, std::uint64_t target) {
  lane_ = wire.lane();
  target_ = target;
}

void ProgressRounds::start(std::uint64_t samples, std::uint64_t global_samples) {
  samples_ = samples;
  global_samples_ = global_samples;
  vote_ = false;
  steps_seen_ = steps_;
  if (!target_reached()) task_ = lane_->launch([this] { run(); });
}

void ProgressRounds::stepped(Seconds duration, std::uint64_t samples) {
  // What is far longer is no step: a test or a checkpoint came between.
  constexpr double kLongest = 4;
  const double longest = own_step_ > 0 ? kLongest * own_step_ : duration.count();
  own_step_ = smoothed(own_step_, std::min(duration.count(), longest));
  samples_ += samples;
  ++steps_;
  rethrow_failure();
}

void ProgressRounds::rethrow_failure() {
  if (task_ && task_->finished()) task_->join();
}

void ProgressRounds::stop() {
  vote_ = true;
  if (task_) task_->join();
  task_.reset();
}

Seconds ProgressRounds::poll_interval() const noexcept {
  const double step = std::max(own_step_.load(), mean_step_.load());
  return step == 0 ? kFirstGlance : std::max(kShortestGlance, Seconds(step / 8));
}

void ProgressRounds::run() {
  while (true) {
    await_turn();
    if (abandoned_ || !exchange_progress()) return;
    if (work_) do_work();
    ++completed_;
  }
}

// There is nothing to wait for that would wake a task both in real and in simulated time.
void ProgressRounds::await_turn() {
  const Seconds start = lane_->now();
  while (!vote_ && !abandoned_) {
    const auto period = static_cast<double>(period_.load());
    if (static_cast<double>(steps_ - steps_seen_) >= period) break;
    const double patience = kPatience * period * mean_step_;
    if (patience > 0 && (lane_->now() - start).count() >= patience) break;
    lane_->sleep(poll_interval());
  }
  steps_seen_ = steps_;
}

bool ProgressRounds::exchange_progress() {
  enum { samples, votes, not_finite, step_time, kCount };
  std::array<std::uint64_t, kCount> news{};
  news[samples] = samples_;
  news[votes] = vote_ ? 1 : 0;
  news[not_finite] = not_finite_ ? 1 : 0;
  news[step_time] = nanoseconds(own_step_);
  allreduce_sum(*lane_, std::span(news));
  const auto workers = static_cast<std::uint64_t>(lane_->size());
  mean_step_ = static_cast<double>(news[step_time]) * 1e-9 / static_cast<double>(workers);
  global_samples_ = news[samples];
  if (news[not_finite] > 0) {
    throw Error(fmt::format(
        "the models of {} of {} workers are not finite: training diverged; a smaller learning rate "
        "or a warm-up may help",
        news[not_finite], workers));
  }
  return news[votes] < workers && !target_reached();
}

void ProgressRounds::do_work() {
  const Seconds start = lane_->now();
  const std::uint64_t steps = steps_;
  work_(*lane_);
  overlapped_ += steps_ - steps;
  work_seconds_ = smoothed(work_seconds_, (lane_->now() - start).count());
}

}  // namespace thinwire::strategy
