#include "strategy/common/consensus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernel/finite.h"
#include "strategy/common/phase_time.h"
#include "thinwire/collective.h"

namespace thinwire::strategy {
namespace {

// Returns the sum of one value per rank. It is added in rank order, so that all ranks round alike.
double sum_over_ranks(Transport& wire, double mine) {
  std::vector<double> all(static_cast<std::size_t>(wire.size()));
  allgather(wire, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  double sum = 0;
  for (const double each : all) sum += each;
  return sum;
}

double distance(Transport& wire, Floats before, Floats mean) {
  double apart = 0, length = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double at = mean[i], gap = static_cast<double>(before[i]) - at;
    apart += gap * gap;
    length += at * at;
  }
  apart = std::sqrt(sum_over_ranks(wire, apart) / wire.size());
  return apart == 0 ? 0 : apart / std::sqrt(length);
}

}  // namespace

std::uint64_t early_steps(const RunOptions& run, std::uint64_t fewest) {
  if (run.steps == 0) return std::max(fewest, run.warmup_steps);
  return std::min(std::max({fewest, run.steps / 50, run.warmup_steps}), run.steps / 10);
}

std::uint64_t synchronous_steps(const RunOptions& run) {
  constexpr std::uint64_t kOfUnknownLength = 10;
  return early_steps(run, run.steps == 0 ? kOfUnknownLength : 0);
}

Error diverged(std::string_view problem) {
  return Error(fmt::format("training: {}; a smaller learning rate or a warm-up may help", problem));
}

void agree_on_mean(const StrategyContext& context, MutFloats params, double weight) {
  Transport& wire = context.wire;
  const std::vector<float> before(params.begin(), params.end());
  const double share = weight / sum_over_ranks(wire, weight);
  for (float& value : params) value = static_cast<float>(share * value);
  allreduce_sum(wire, params);
  if (!kernel::all_finite(params)) throw diverged("the mean of all models is not finite");
  context.stats.consensus_distance = distance(wire, before, params);
}

}  // namespace thinwire::strategy
