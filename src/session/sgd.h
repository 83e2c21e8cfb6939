// Stochastic gradient descent with momentum, Nesterov's form of it, and weight decay, on flat
// memory. Same arithmetic as torch.optim.SGD.
#pragma once

#include <vector>

#include "thinwire/strategy.h"

namespace thinwire::session {

// Applies one update. `velocity` is as long as params, or empty if config.momentum is 0. Only the
// entries of a sparse update are visited if the configuration leaves all others as they are.
void apply_sgd(const SgdConfig& config, MutFloats params, Floats grads, MutFloats velocity,
               const Update& update, float learning_rate);

}  // namespace thinwire::session
