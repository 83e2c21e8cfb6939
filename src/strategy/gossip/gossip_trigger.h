// Decides when a worker sends its model.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "strategy/gossip/own_movement.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Decides by one of three rules. With the first two, a message is also due in every step of the
// warm-up, after kLongestInterval steps without one, and after a jump of the learning rate; and it
// is not due again too soon.
class GossipTrigger {
 public:
  enum class Rule {
    change,  // after a movement as long as kappa steps in one direction, or kappa² steps of noise
    budget,  // after a movement above a threshold, which a controller adapts to the budget
    period,  // every `period` steps
  };
  struct Options {
    Rule rule = Rule::change;
    double kappa = 0.25;
    double budget = 0.08;  // messages per step
    std::uint64_t period = 1;
  };

  static constexpr std::uint64_t kLongestInterval = 200;  // steps between messages

  explicit GossipTrigger(const Options& options) : options_(options) {}
  void begin(const RunOptions& run);

  // Called in each step. Returns whether a message is due now. The caller then calls sent() with
  // whether it has sent one; if not, the message stays due.
  bool due(const OwnMovement& movement, double learning_rate);
  void sent(bool started);
  // Reports that the exchange of the last message was refused: a message is due again.
  void failed() noexcept { retry_ = true; }

  // Appends the metrics fires, forced, suppressed, interval_mean, and how often each length of an
  // interval occurred.
  void report(std::vector<Metric>& metrics) const;
  // Returns the threshold of the movement in the last step.
  double threshold() const noexcept { return threshold_; }

  void save(base::ByteWriter& out) const;
  void load(base::ByteReader& in);

 private:
  void follow(double learning_rate);
  void calibrate(const OwnMovement& movement);
  bool moved_enough(const OwnMovement& movement);
  std::uint64_t shortest() const noexcept;

  Options options_;
  std::uint64_t warm_up_ = 0;
  double alike_ = 1;  // how many mean steps long the whole effect of one gradient is
  std::uint64_t steps_ = 0, interval_ = 0;  // all steps, and those since the last message
  double mean_step_ = 0, mean_weight_ = 0;  // a moving average, and its divisor
  double log_share_ = 0;                    // budget: logarithm of threshold / norm of the model
  bool calibrated_ = false;                 // whether log_share_ has a value
  double rate_ = 0;
  double threshold_ = 0;
  bool retry_ = false;     // a message was due and has not been sent
  bool jumped_ = false;    // the learning rate jumped after the last message
  bool changing_ = false;  // the learning rate changed by more than kJump in the last step
  bool due_ = false, forced_ = false;  // of this step
  struct {
    double fires = 0, forced = 0, suppressed = 0;
    std::array<double, 10> intervals{};  // 1, 2, 3-4, 5-8, ..., more than 256
  } count_;
};

}  // namespace thinwire::strategy
