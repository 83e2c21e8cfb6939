#include "session/sgd.h"

namespace thinwire::session {

void apply_sgd(const SgdConfig& config, MutFloats params, Floats grads, MutFloats velocity,
               const Update& update, float learning_rate) {
  const auto [momentum, weight_decay, nesterov] = config;
  const auto apply = [&, momentum = momentum, weight_decay = weight_decay,
                      nesterov = nesterov](std::size_t i) {
    const float gradient = grads[i] + weight_decay * params[i];
    float direction = gradient;
    if (momentum != 0) {
      velocity[i] = momentum * velocity[i] + gradient;
      direction = nesterov ? gradient + momentum * velocity[i] : velocity[i];
    }
    params[i] -= learning_rate * direction;
  };
  // Without momentum and weight decay a gradient of 0 leaves its parameter as it is.
  if (update.sparse && momentum == 0 && weight_decay == 0) {
    for (const std::uint32_t i : update.indices) apply(i);
  } else {
    for (std::size_t i = 0; i < params.size(); ++i) apply(i);
  }
}

}  // namespace thinwire::session
