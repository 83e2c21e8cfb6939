// For tests of qsgd and grandk: gradients, and runs with one matrix.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "testing/strategy_run.h"

namespace thinwire::test {

using Vectors = std::vector<std::vector<float>>;  // one per rank

// Returns gradients with magnitudes from 2^-12 to 1.
inline float wide_gradient(int rank, std::uint64_t step, std::size_t element) {
  const auto random =
      base::philox(5, step << 16 | static_cast<std::uint64_t>(rank), element, base::Purpose::test);
  const float size =
      (base::unit_float(random[0]) + 0.01f) * std::ldexp(1.0f, -static_cast<int>(random[1] % 12));
  return (random[2] & 1) != 0 ? size : -size;
}

inline StrategyRun matrix_run(std::string spec, int workers, std::size_t rows,
                              std::uint64_t steps = 2) {
  StrategyRun run;
  run.spec = std::move(spec);
  run.workers = workers;
  run.numel = rows * 100;
  run.shape = {rows, 100};
  run.steps = steps;
  run.gradient = wide_gradient;
  return run;
}

inline Vectors gradients_of(const StrategyRun& run, std::uint64_t step) {
  Vectors out(static_cast<std::size_t>(run.workers));
  for (int rank = 0; rank < run.workers; ++rank) {
    for (std::size_t i = 0; i < run.numel; ++i) {
      out[static_cast<std::size_t>(rank)].push_back(run.gradient(rank, step, i));
    }
  }
  return out;
}

}  // namespace thinwire::test
