// Runs a strategy on simulated workers with made-up gradients and measures the cost of a step.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "thinwire/strategy.h"
#include "thinwire/types.h"

namespace thinwire::plan {

struct SimulationSpec {
  std::string strategy;  // a spec
  int workers = 2;
  Layout layout;
  Network network;
  Seconds computing{0};  // of a worker between two exchanges
  double scale = 1;      // how many parameters each one represents on the wire
  // Numbers of steps; those that count come last. The strategy's own computing takes no virtual
  // time in them, so that their time depends on this spec alone.
  int warmup = 1;
  int counted = 0;
  std::uint64_t steps = 0;  // of the run to which these steps belong; 0: not known
};

struct SimulationResult {
  // These are means over the workers and the steps that count.
  Seconds step{0};  // virtual
  double bytes_sent = 0;
  double fixed_bytes = 0;    // the part of them that does not grow with the model
  double busiest_bytes = 0;  // sent or received by the busiest worker
  double change = 0;         // of the bytes of all workers in the last step against the one before
  // In how many of these steps the worker that exchanged least sent its model or gradient.
  int exchanges = 0;
  // Whether every worker had received quantized messages before the steps that count.
  bool coded = false;
  // CPU time of the strategy in a step: the median worker plus the busiest server, for which all
  // workers wait.
  Seconds codec{0};
  std::vector<Metric> metrics;        // over all workers
  CostProfile cost;                   // of rank 0 at the end
  std::vector<std::string> warnings;  // about options that have no effect
};

// Returns the metric of that name; null if the strategy has none.
const Metric* find_metric(const std::vector<Metric>& metrics, std::string_view name);

// Throws ConfigError if the strategy cannot work with that number of workers.
SimulationResult simulate_strategy(const SimulationSpec& spec);

// Returns about how many floats per parameter a worker holds, rather too many than too few: its
// gradient, state of the strategy, messages; and where models are exchanged, parameters and
// snapshots.
constexpr std::size_t simulation_buffers(SyncMode sync_mode) {
  return sync_mode == SyncMode::synchronous ? 3 : 6;
}

}  // namespace thinwire::plan
