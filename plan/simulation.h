// A strategy at work on simulated workers with made-up gradients, for as many steps as it takes to
// know what a step costs.
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
  double scale = 1;      // each parameter stands for so many, on the wire
  // Steps; those that count come last. The strategy's own computing takes no time in them, so that
  // what they take is a function of the simulation_spec alone.
  int warmup = 1;
  int counted = 0;
};

struct SimulationResult {
  // Of the steps that count, means over the workers.
  Seconds step{0};  // virtual
  double bytes_sent = 0;
  double fixed_bytes = 0;    // of them, what would be no more with a larger model
  double busiest_bytes = 0;  // that the worker with most of them sends or receives
  double change = 0;         // of what all sent, from the step before the last to the last
  // Steps that count in which the worker that told least told something of its model.
  int exchanges = 0;
  // Whether letters in few bits had come to every worker before the steps that count.
  bool coded = false;
  // The strategy's own computing in a step, CPU time: of the median worker, and of the busiest
  // server, for which all of them wait.
  Seconds codec{0};
  std::vector<Metric> metrics;        // over all workers
  CostProfile cost;                   // of rank 0 at the end
  std::vector<std::string> warnings;  // of what was asked for and will not happen
};

// The metric of that name; null if the strategy has none.
const Metric* find_metric(const std::vector<Metric>& metrics, std::string_view name);

// ConfigError if the strategy cannot work with so many workers.
SimulationResult simulate_strategy(const SimulationSpec& plan);

// Floats per parameter that a worker holds, a generous guess: its gradient, what it keeps from step
// to step, messages; and where models are exchanged, parameters and snapshots.
constexpr std::size_t simulation_buffers(SyncMode sync_mode) {
  return sync_mode == SyncMode::synchronous ? 3 : 6;
}

}  // namespace thinwire::plan
