// The learning rate over a run.
#pragma once

#include <string_view>

namespace thinwire::trainer {

// Specs: "constant", "step:every=30,factor=0.1" (epochs), "cosine" (to 0 at the end of the run);
// each with warmup=EPOCHS (linear from 0.1 of the rate; fractions allowed) and scale=none,linear
// (linear: the rate is multiplied by the number of workers, Goyal et al. 2017).
class Schedule {
 public:
  static Schedule parse(std::string_view spec, double base_rate, int workers);

  // Returns the rate at `epoch`, which may be fractional; `total` is the length of the run in
  // epochs.
  double rate(double epoch, double total) const;
  // Returns the number of first epochs in which the rate rises.
  double warmup_epochs() const noexcept { return warmup_; }

 private:
  enum class Shape { constant, step, cosine };
  Shape shape_ = Shape::constant;
  double base_ = 0;
  double every_ = 30;
  double factor_ = 0.1;
  double warmup_ = 0;
};

}  // namespace thinwire::trainer
