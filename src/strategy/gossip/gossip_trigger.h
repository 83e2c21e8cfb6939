// Decides when a worker sends its model.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "strategy/gossip/own_movement.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

// The rules, and around the first two, guards: never again too soon, never silent for long, in
// every step of the warm-up, and once more after a jump of the learning rate.
class GossipTrigger {
 public:
  enum class Rule {
    change,  // the own movement is that of kappa steps in one direction, or kappa² of noise
    budget,  // it exceeds a threshold that a controller sets to hold a rate of messages
    period,  // every so many steps, whatever happened
  };
  struct Options {
    Rule rule = Rule::change;
    double kappa = 0.25;
    double budget = 0.08;  // messages per step
    std::uint64_t period = 1;
  };

  static constexpr std::uint64_t kLongestSilence = 200;  // steps

  explicit GossipTrigger(const Options& options) : options_(options) {}
  void begin(const RunOptions& run);

  // Called in each step. Returns whether a message is due now. The caller then calls sent() with
  // whether it has sent one; if not, the message stays due.
  bool due(const OwnMovement& movement, double learning_rate);
  void sent(bool begun);
  // What had begun came to nothing.
  void failed() noexcept { retry_ = true; }

  // fires, forced, suppressed, and how often each length of interval occurred.
  void report(std::vector<Metric>& metrics) const;
  double threshold() const noexcept { return threshold_; }  // of the movement in the last step

  void save(base::ByteWriter& out) const;
  void load(base::ByteReader& in);

 private:
  void follow(double learning_rate);
  void calibrate(const OwnMovement& movement);
  bool moved_enough(const OwnMovement& movement);
  std::uint64_t shortest() const noexcept;

  Options options_;
  std::uint64_t warm_up_ = 0;
  double alike_ = 1;  // how much longer the mark of one gradient is than a mean step
  std::uint64_t steps_ = 0, interval_ = 0;  // so far, and since it last sent
  double mean_step_ = 0, mean_weight_ = 0;  // a moving average, and by what to divide it
  double log_share_ = 0;                    // budget: of the threshold in the model's norm
  bool calibrated_ = false;                 // log_share_ has a value
  double rate_ = 0;
  double threshold_ = 0;
  bool retry_ = false;                 // was due, and has not been sent
  bool jumped_ = false;                // the learning rate has, and nobody was sent since
  bool changing_ = false;              // the learning rate, by as much, in the last step
  bool due_ = false, forced_ = false;  // in this step
  struct {
    double fires = 0, forced = 0, suppressed = 0;
    std::array<double, 10> intervals{};  // 1, 2, 3-4, 5-8, ..., more than 256
  } count_;
};

}  // namespace thinwire::strategy
