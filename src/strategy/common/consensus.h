// How models that train apart begin together and become one again.
#pragma once

#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Returns for how many first steps gradients are averaged instead of models, which do not average
// well while they change fast: 2 % of the run, or as long as the learning rate rises, but at most
// 10 % of the run, since these steps go at the speed of the slowest worker.
std::uint64_t synchronous_steps(const RunOptions& run);

// Replaces params, on every rank by the same bits, by the mean over all ranks weighted by `weight`
// (any scale, not all 0), and notes in the stats how far they were from it before:
//   sqrt(1/P sum |x_i - mean|^2) / |mean|
// Error on all ranks if the mean is not finite.
void agree_on_mean(const StrategyContext& context, MutFloats params, double weight = 1);

}  // namespace thinwire::strategy
