#include "strategy/gossip/gossip_trigger.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "strategy/common/consensus.h"

namespace thinwire::strategy {
namespace {

constexpr double kMemory = 0.99;  // share of the past in the mean step length
constexpr double kGain = 0.05;    // of the controller, on the logarithm of its threshold
constexpr double kJump = 0.1;     // relative change of the learning rate that makes a message due
constexpr std::uint64_t kFewestWarmUpSteps = 30;
constexpr double kMostMomentum = 0.99;
constexpr double kLowestLog = -30, kHighestLog = 10;

}  // namespace

// In the warm-up models move fast, and messages in every step keep them together.
void GossipTrigger::begin(const RunOptions& run) {
  if (options_.rule == Rule::period) return;
  warm_up_ = early_steps(run, kFewestWarmUpSteps);
  // Momentum makes steps alike. All steps together in which one gradient moves the model are longer
  // than a mean step of noisy gradients by this factor. In units of that length, t steps of noise
  // move the model by sqrt(t), as without momentum.
  const double momentum = std::min(static_cast<double>(run.sgd.momentum), kMostMomentum);
  alike_ = std::sqrt((1 + momentum) / (1 - momentum));
}

// Returns the shortest interval between messages. It suppresses messages that noise triggers,
// unless the options ask for a message in nearly every step.
std::uint64_t GossipTrigger::shortest() const noexcept {
  const bool dense = options_.rule == Rule::change ? options_.kappa < 2 : options_.budget > 0.4;
  return dense || options_.rule == Rule::period ? 1 : 2;
}

// The length of steps is proportional to the learning rate, so that measured lengths are scaled
// with it.
void GossipTrigger::follow(double learning_rate) {
  if (rate_ > 0 && learning_rate > 0) {
    mean_step_ *= learning_rate / rate_;
    log_share_ += std::log(learning_rate / rate_);
    // A rate that changes as much in several steps in a row follows a smooth schedule: no jump.
    const bool changed = std::abs(learning_rate - rate_) > kJump * rate_;
    jumped_ = jumped_ || (changed && !changing_);
    changing_ = changed;
  }
  rate_ = learning_rate;
}

// The controller starts with the threshold that meets the budget for steps half-way between steps
// in one direction (1 / budget steps move the model by 1 / budget mean steps) and pure noise (they
// move it by the square root of that).
void GossipTrigger::calibrate(const OwnMovement& movement) {
  const double step = mean_step_ / mean_weight_;
  if (calibrated_ || step == 0 || movement.sent_at() == 0) return;
  log_share_ = std::log(std::pow(1 / options_.budget, 0.75) * step / movement.sent_at());
  calibrated_ = true;
}

bool GossipTrigger::moved_enough(const OwnMovement& movement) {
  mean_step_ = kMemory * mean_step_ + (1 - kMemory) * movement.last_step();
  mean_weight_ = kMemory * mean_weight_ + (1 - kMemory);
  if (options_.rule == Rule::period) return interval_ >= options_.period;
  const bool by_change = options_.rule == Rule::change;
  if (!by_change && steps_ > warm_up_) calibrate(movement);
  threshold_ = by_change ? options_.kappa * alike_ * mean_step_ / mean_weight_
                         : std::exp(log_share_) * movement.sent_at();
  // A model that has not moved is not sent, unless kappa=0 asks for a message in every step.
  if (movement.length() == 0) return by_change && options_.kappa == 0;
  return movement.length() >= threshold_;
}

bool GossipTrigger::due(const OwnMovement& movement, double learning_rate) {
  ++steps_;
  ++interval_;
  follow(learning_rate);
  const bool moved = moved_enough(movement);
  const bool guarded = options_.rule != Rule::period;
  const bool wanted = moved || retry_ || (guarded && steps_ <= warm_up_);
  forced_ = !wanted && guarded && (jumped_ || interval_ >= kLongestInterval);
  const bool too_soon = guarded && steps_ > warm_up_ && interval_ < shortest();
  due_ = (wanted || forced_) && !too_soon;
  return due_;
}

void GossipTrigger::sent(bool started) {
  // Messages of the warm-up do not count for the budget.
  if (calibrated_) {
    log_share_ += kGain * ((started ? 1 : 0) - options_.budget);
    log_share_ = std::clamp(log_share_, kLowestLog, kHighestLog);
  }
  if (due_ && !started) {
    count_.suppressed += 1;
    retry_ = true;
  }
  if (!started) return;
  count_.fires += 1;
  count_.forced += forced_ ? 1 : 0;
  const auto bucket = static_cast<std::size_t>(std::bit_width(interval_ - 1));
  count_.intervals[std::min(bucket, count_.intervals.size() - 1)] += 1;
  interval_ = 0;
  retry_ = jumped_ = false;
}

void GossipTrigger::report(std::vector<Metric>& metrics) const {
  metrics.push_back({"fires", count_.fires});
  metrics.push_back({"forced", count_.forced});
  metrics.push_back({"suppressed", count_.suppressed});
  metrics.push_back({"interval_mean", static_cast<double>(steps_), count_.fires});
  for (std::size_t i = 0; i < count_.intervals.size(); ++i) {
    const std::size_t longest = std::size_t{1} << i;
    std::string name =
        i < 2 ? fmt::format("{}", longest) : fmt::format("{}-{}", longest / 2 + 1, longest);
    if (i + 1 == count_.intervals.size()) name = fmt::format("more than {}", longest / 2);
    metrics.push_back({name, count_.intervals[i], count_.fires, "intervals"});
  }
}

void GossipTrigger::save(base::ByteWriter& out) const {
  for (const std::uint64_t number : {steps_, interval_}) out.put(number);
  for (const double number : {mean_step_, mean_weight_, log_share_, rate_}) out.put(number);
  for (const bool flag : {retry_, jumped_, changing_, calibrated_})
    out.put<std::uint8_t>(flag ? 1 : 0);
}

void GossipTrigger::load(base::ByteReader& in) {
  for (std::uint64_t* number : {&steps_, &interval_}) *number = in.get<std::uint64_t>();
  for (double* number : {&mean_step_, &mean_weight_, &log_share_, &rate_}) {
    *number = in.get<double>();
  }
  for (bool* flag : {&retry_, &jumped_, &changing_, &calibrated_})
    *flag = in.get<std::uint8_t>() != 0;
}

}  // namespace thinwire::strategy
