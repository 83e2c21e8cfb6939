// The cost of a model without any data: its tensors, and the time to compute a step.
#pragma once

#include <string_view>

#include "thinwire/types.h"

namespace thinwire::trainer {

// Returns the layout of the model in its published form. Throws ConfigError, which names the
// closest model, if the name is unknown.
Layout layout_of(std::string_view model);

struct StepTime {
  Seconds seconds{0};              // of a step with the batch asked for
  std::size_t measured_batch = 0;  // smaller than the batch if that would have taken too long
};

// Measures forward and backward of random examples of the published shape on one thread of this
// machine, and returns the median of a few runs. It takes some seconds.
StepTime measure_step(std::string_view model, std::size_t batch);

}  // namespace thinwire::trainer
