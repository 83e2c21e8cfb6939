// Predicts the time and the bytes of a training step, by strategy and number of workers, with the
// real strategies on simulated workers. docs/plan.md explains the method.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/simulation.h"
#include "plan/synthetic_model.h"
#include "thinwire/strategy.h"
#include "thinwire/types.h"

namespace thinwire::plan {

inline constexpr int kMostPlannedWorkers = 1024;
inline constexpr std::uint64_t kUsualSteps = 10'000;

struct Workload {
  Layout layout;
  Seconds step_time{0};  // for one worker to compute a step
  Network network;
  std::uint64_t steps = kUsualSteps;  // of the run, for which automatic keys choose their values
  bool full = false;                  // simulate every parameter, however long it takes
};

// Returns square matrices for a model of which only the number of parameters is known.
Layout synthetic_model(std::size_t numel);

struct Prediction {
  std::string strategy;
  SyncMode sync_mode = SyncMode::synchronous;
  int workers = 1;
  Seconds step{0};
  Seconds codec{0};                  // of it, the strategy's own computing, as measured here
  double efficiency = 1;             // computing / step, times the share of ranks that train
  double bytes_per_worker_step = 0;  // mean over the workers
  // The time that the busiest link needs for its bytes alone.
  Seconds wire_bound{0};
  double blocks_per_worker = 0;  // of an exchange that is divided into blocks; 0: it is not
  double scale = 1;              // the payload was simulated this many times smaller
  std::vector<Metric> metrics;
  std::vector<std::string> notes;  // warnings of the strategy and of the simulation
};

class Planner {
 public:
  explicit Planner(Workload workload);

  // Throws ConfigError, with the reason, if that number of workers cannot be simulated.
  Prediction predict(const std::string& strategy, int workers);

 private:
  // Measured with two workers, the fewest that exchange anything. A strategy that needs more has
  // the default values.
  struct StrategyProfile {
    bool computes = true;
    Seconds codec{0};                 // of a step with all parameters
    double bytes_per_parameter = 0;   // that a worker sends
    double blocks_per_parameter = 0;  // that are divided among the workers as wholes
  };
  const StrategyProfile& profile_of(const Prediction& of);  // found once per strategy
  StrategyProfile measure_profile(const Prediction& of) const;

  void simulate_synchronous(const StrategyProfile& profile, Prediction& out) const;
  void simulate_periodic(Prediction& out) const;
  // Returns the layout to simulate: about `numel` parameters that represent the whole model.
  Layout sampled_layout(const Prediction& of, std::size_t numel) const;
  // Returns how many parameters are enough to show what the strategy does with all of them.
  std::size_t faithful_numel(const StrategyProfile& profile, int workers) const;
  // Throws ConfigError if the simulation does not fit into memory.
  SimulationSpec simulation_spec(const Prediction& of, Layout sampled) const;
  void conclude(const SimulationSpec& spec, const SimulationResult& result, Prediction& out) const;
  // These compare the sampled layout with the whole model. They add a note if the two differ, or
  // throw ConfigError if the prediction would mislead.
  void check_matrices(const SimulationSpec& spec, Prediction& out) const;
  void check_headers(const SimulationSpec& spec, const StrategyProfile& profile,
                     Prediction& out) const;
  void check_blocks(const SimulationSpec& spec, const Prediction& out) const;

  Workload workload_;
  LayoutSummary layout_summary_;
  std::map<std::string, StrategyProfile, std::less<>> profiles_;
};

}  // namespace thinwire::plan
