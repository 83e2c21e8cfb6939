// Stochastic gradient descent with momentum, Nesterov's form of it, and weight decay, on flat
// memory. Same arithmetic as torch.optim.SGD.
#pragma once

#include <vector>

#include "thinwire/buffer.h"

namespace thinwire::trainer {

struct SgdOptions {
  float momentum = 0.9f;
  float weight_decay = 0;
  bool nesterov = false;
};

class Sgd {
 public:
  Sgd(const SgdOptions& options, std::size_t numel) : options_(options), velocity_(numel, 0.0f) {}

  void step(MutFloats params, Floats grads, float learning_rate);
  // The state that a checkpoint holds.
  MutFloats velocity() noexcept { return velocity_; }

 private:
  SgdOptions options_;
  std::vector<float> velocity_;
};

}  // namespace thinwire::trainer
