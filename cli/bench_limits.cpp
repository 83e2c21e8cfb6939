#include "cli/bench_limits.h"
#include "base/readable.h"

#include <fmt/format.h>

#include "base/memory.h"
#include "cli/numel.h"
#include "thinwire/error.h"

namespace thinwire::cli {

void check_repetitions(int reps, int warmup) {
  if (reps < 1) throw ConfigError(fmt::format("--reps {}: at least 1 is needed", reps));
  if (warmup < 0) throw ConfigError(fmt::format("--warmup {}: at least 0 is needed", warmup));
}

void check_floats(std::size_t numel, std::size_t buffers) {
  if (numel > std::size_t{1} << 32) {
    throw ConfigError(fmt::format("--numel {}: at most 2^32 floats are possible", numel));
  }
  const std::uint64_t needed = numel * sizeof(float) * buffers;
  const std::optional<std::uint64_t> room = base::available_memory();
  if (room && needed > *room) {
    throw ConfigError(fmt::format("--numel: {} floats need {}, but only {} is available", numel,
                                  base::gibibytes(needed), base::gibibytes(*room)));
  }
}

}  // namespace thinwire::cli
