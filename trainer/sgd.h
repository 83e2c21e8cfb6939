// Stochastic gradient descent with momentum, Nesterov's form of it, and weight decay, on flat
// memory. Same arithmetic as torch.optim.SGD.
#pragma once

#include <vector>

#include "thinwire/strategy.h"

namespace thinwire::trainer {

class Sgd {
 public:
  Sgd(const Descent& descent, std::size_t numel)
      : descent_(descent), velocity_(descent.momentum == 0 ? 0 : numel, 0.0f) {}

  void step(MutFloats params, Floats grads, float learning_rate);
  // The state that a checkpoint holds; empty without momentum.
  MutFloats velocity() noexcept { return velocity_; }

 private:
  Descent descent_;
  std::vector<float> velocity_;
};

}  // namespace thinwire::trainer
