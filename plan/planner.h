// What a step of training will take and send, by strategy and number of workers: the real
// strategies on simulated workers. docs/plan.md tells how.
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

struct Workload {
  Layout layout;
  Seconds step_time{0};  // what computing a step takes on one worker
  Network network;
  bool full = false;  // every parameter is simulated, however long it takes
};

// A model of which only the number of parameters is known: square matrices.
Layout synthetic_model(std::size_t numel);

struct Prediction {
  std::string strategy;
  SyncMode sync_mode = SyncMode::synchronous;
  int workers = 1;
  Seconds step{0};
  Seconds codec{0};                  // of it, the strategy's own computing, as measured here
  double efficiency = 1;             // computing / step, times the share of ranks that train
  double bytes_per_worker_step = 0;  // mean over the workers
  // What the busiest link needs for its bytes, if they are all that happens.
  Seconds wire_bound{0};
  double blocks_per_worker = 0;  // into which an exchange is divided; 0: it is not
  double scale = 1;              // the payload was simulated so many times smaller
  std::vector<Metric> metrics;
  std::vector<std::string> notes;  // what the strategy warns of, and where the part falls short
};

class Planner {
 public:
  explicit Planner(Workload workload);

  // ConfigError if it cannot be told for so many workers, with the reason.
  Prediction predict(const std::string& strategy, int workers);

 private:
  // What two workers, the fewest that exchange anything, show of a strategy; nothing of one that
  // wants more of them.
  struct StrategyProfile {
    bool computes = true;
    Seconds codec{0};                 // of a step with all parameters
    double bytes_per_parameter = 0;   // that a worker sends
    double blocks_per_parameter = 0;  // that are dealt out among the workers, each as a whole
  };
  const StrategyProfile& profile_of(const Prediction& of);  // found once per strategy
  StrategyProfile measure_profile(const Prediction& of) const;

  void simulate_synchronous(const StrategyProfile& profile, Prediction& out) const;
  void simulate_periodic(Prediction& out) const;
  // The part of the model to simulate: about so many parameters, which stand for all of them.
  Layout part_of(const Prediction& of, std::size_t numel) const;
  // As many as show what the strategy does with all of them.
  std::size_t faithful_numel(const StrategyProfile& profile, int workers) const;
  // ConfigError if it does not fit into memory.
  SimulationSpec simulation_spec(const Prediction& of, Layout part) const;
  void conclude(const SimulationSpec& plan, const SimulationResult& result, Prediction& out) const;
  // Where the part is not like the whole: a note, or ConfigError if it would mislead.
  void check_matrices(const SimulationSpec& plan, Prediction& out) const;
  void check_headers(const SimulationSpec& plan, const StrategyProfile& profile,
                     Prediction& out) const;
  void check_blocks(const SimulationSpec& plan, const Prediction& out) const;

  Workload workload_;
  LayoutSummary layout_summary_;
  std::map<std::string, StrategyProfile, std::less<>> profiles_;
};

}  // namespace thinwire::plan
