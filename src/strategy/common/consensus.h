// The first and the last steps of workers that train models of their own: steps in which models are
// still close to each other, and the mean of all models at the end.
#pragma once

#include <string_view>

#include "thinwire/error.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Returns how many steps at the start of a run are treated differently, because models change too
// fast in them: 2 % of the run, `fewest`, or as long as the learning rate rises, whichever is most,
// but at most 10 % of the run. If the length of the run is not known, `fewest` or as long as the
// learning rate rises.
std::uint64_t early_steps(const RunOptions& run, std::uint64_t fewest = 0);

// Returns in how many first steps gradients are averaged instead of models, which do not average
// well while they change fast: early_steps(), and 10 if the length of the run is not known. These
// steps go at the speed of the slowest worker.
std::uint64_t synchronous_steps(const RunOptions& run);

// Returns the error of a run that diverged. The text consists of the problem and of one advice.
Error diverged(std::string_view problem);

// Replaces params by the mean over all ranks, weighted by `weight` (any scale, not all 0). The bits
// are the same on every rank. Writes to the stats how far the models were from the mean before:
//   sqrt(1/P sum |x_i - mean|^2) / |mean|
// Throws Error on all ranks if the mean is not finite.
void agree_on_mean(const StrategyContext& context, MutFloats params, double weight = 1);

}  // namespace thinwire::strategy
