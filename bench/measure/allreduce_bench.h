// Measures one exchange of a strategy on synthetic gradients. Runs on every rank of a group.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/stats.h"
#include "thinwire/strategy.h"
#include "thinwire/transport.h"
#include "thinwire/types.h"

namespace thinwire::measure {

struct AllreduceBenchOptions {
  std::string strategy;  // a spec
  std::vector<std::size_t> numels;
  int reps = 5;
  int warmup = 1;
  std::uint64_t seed = 1;
  std::optional<Network> network;
};

// The same on every rank. Times are those of the slowest rank in each repetition.
struct AllreduceResult {
  std::size_t numel = 0;
  int workers = 1;
  int reps = 0;
  Summary seconds;
  double seconds_codec = 0;            // median
  std::uint64_t bytes_per_worker = 0;  // that the rank that sends most sends in one exchange
  // The bytes of the busiest link at its full speed and one latency; none without a network.
  std::optional<double> wire_bound_seconds;
  bool replicas_identical = true;
  // What a worker that computes next to the others needs for r += g over as many floats: the unit
  // that memory sets for seconds_codec. Median, slowest worker.
  double seconds_add = 0;
  std::vector<Metric> metrics;  // what the strategy says about itself
};

// Floats that a worker holds per element: the gradient, and as much again for the collectives.
inline constexpr std::size_t kBuffersPerWorker = 2;

using RepStarted = std::function<void(int rep)>;  // warm-up included, from 0

// Throws Error on every rank if the result is not what it must be.
AllreduceResult measure_allreduce(Transport& wire, const AllreduceBenchOptions& options,
                                  std::size_t numel, const RepStarted& rep_started);

}  // namespace thinwire::measure
