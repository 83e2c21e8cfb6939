#include <cmath>

#include "trainer/train.h"

namespace thinwire::trainer {

int training_workers(const std::string& strategy, int ranks) {
  return ranks - serving_ranks_of(*make_strategy(strategy), ranks);
}

std::uint64_t total_steps(const RunLength& length, std::size_t examples, std::size_t batch,
                          int workers) {
  if (length.steps > 0) return length.steps;
  const double global = static_cast<double>(batch) * workers;
  if (length.samples > 0) {
    return static_cast<std::uint64_t>(std::ceil(static_cast<double>(length.samples) / global));
  }
  const double per_epoch = std::ceil(static_cast<double>(examples) / global);
  return static_cast<std::uint64_t>(std::ceil(length.epochs * per_epoch));
}

}  // namespace thinwire::trainer
