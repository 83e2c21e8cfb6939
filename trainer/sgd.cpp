#include "trainer/sgd.h"

namespace thinwire::trainer {

void Sgd::step(MutFloats params, Floats grads, float learning_rate) {
  const auto [momentum, weight_decay, nesterov] = sgd_config_;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const float gradient = grads[i] + weight_decay * params[i];
    float direction = gradient;
    if (momentum != 0) {
      velocity_[i] = momentum * velocity_[i] + gradient;
      direction = nesterov ? gradient + momentum * velocity_[i] : velocity_[i];
    }
    params[i] -= learning_rate * direction;
  }
}

}  // namespace thinwire::trainer
