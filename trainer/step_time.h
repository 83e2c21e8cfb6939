// What a model costs before there is any data: its tensors, and the time that computing a step
// takes.
#pragma once

#include <string_view>

#include "thinwire/types.h"

namespace thinwire::trainer {

// Of the model in its published form. ConfigError for an unknown name, with the closest.
Layout layout_of(std::string_view model);

struct StepTime {
  Seconds seconds{0};              // of a step with the batch asked for
  std::size_t measured_batch = 0;  // smaller if that would have taken long
};

// Forward and backward of random examples of the published shape, on one thread of this machine;
// the median of a few. Takes some seconds.
StepTime measure_step(std::string_view model, std::size_t batch);

}  // namespace thinwire::trainer
