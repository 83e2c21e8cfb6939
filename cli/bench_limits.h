// What every benchmark refuses before it starts.
#pragma once

#include <cstddef>

namespace thinwire::cli {

// ConfigError unless there is something to count.
void check_repetitions(int reps, int warmup);

// ConfigError if indices cannot count the floats, or `buffers` times as many do not fit in memory.
void check_floats(std::size_t numel, std::size_t buffers);

}  // namespace thinwire::cli
