// The models of all workers become their mean.
#pragma once

#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Replaces params, on every rank by the same bits, by the mean over all ranks weighted by `weight`
// (any scale, not all 0), and notes in the stats how far they were from it before:
//   sqrt(1/P sum |x_i - mean|^2) / |mean|
// Error on all ranks if the mean is not finite.
void agree_on_mean(const StrategyContext& context, MutFloats params, double weight = 1);

}  // namespace thinwire::strategy
