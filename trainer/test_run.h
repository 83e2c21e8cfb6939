// Whole runs for tests, with ranks that are threads of this process or simulated.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "thinwire/launch.h"
#include "thinwire/types.h"
#include "trainer/train.h"

namespace thinwire::trainer {

inline TrainOptions options_for(std::size_t batch, std::uint64_t steps) {
  TrainOptions options;
  options.model = "mlp";
  options.batch = batch;
  options.steps = steps;
  return options;
}

inline const DataPair& digits() {
  static const DataPair data = load_data("digits", 1);
  return data;
}

struct Outcome {
  TrainResult result;
  std::vector<double> losses;            // of rank 0, step by step
  std::vector<TrainingLoss> of_workers;  // of all ranks, from milestone to milestone
};

inline bool has_simulator() {
  return std::ranges::any_of(transport_backends(),
                             [](const TransportBackend& backend) { return backend.name == "sim"; });
}

inline Outcome run(const TrainOptions& options, int workers,
                   const std::string& transport = "threads", const DataPair& data = digits(),
                   const char* network = "1gbit,0.1ms") {
  Outcome outcome;
  Observer watching;
  watching.step = [&](const StepReport& report) { outcome.losses.push_back(report.loss); };
  watching.met = [&](const TrainingLoss& loss) { outcome.of_workers.push_back(loss); };
  JoinOptions join;
  join.size = workers;
  if (transport == "sim") join.network = thinwire::Network::parse(network);
  run_workers(transport, join, [&](Transport& wire) {
    const Observer silent;
    const TrainResult result = train(wire, options, data, wire.rank() == 0 ? watching : silent);
    if (wire.rank() == 0) outcome.result = result;
  });
  return outcome;
}

}  // namespace thinwire::trainer
