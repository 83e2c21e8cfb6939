// Stochastic gradient descent with momentum, Nesterov's form of it, and weight decay, on flat
// memory. It has the same arithmetic as torch.optim.SGD.
#pragma once

#include <vector>

#include "thinwire/strategy.h"

namespace thinwire::trainer {

class Sgd {
 public:
  Sgd(const SgdConfig& sgd, std::size_t numel)
      : sgd_config_(sgd), velocity_(sgd.momentum == 0 ? 0 : numel, 0.0f) {}

  void step(MutFloats params, Floats grads, float learning_rate);
  // Returns the state that a checkpoint holds; it is empty without momentum.
  MutFloats velocity() noexcept { return velocity_; }

 private:
  SgdConfig sgd_config_;
  std::vector<float> velocity_;
};

}  // namespace thinwire::trainer
