// What a step of training will take and send, by strategy and number of workers: the real
// strategies on simulated workers. docs/plan.md tells how.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/rehearsal.h"
#include "cli/synthetic.h"
#include "thinwire/network.h"
#include "thinwire/strategy.h"

namespace thinwire::cli {

inline constexpr int kMostPlannedWorkers = 1024;

struct Workload {
  Layout layout;
  Seconds step_time{0};  // what computing a step takes on one worker
  Network network;
  bool full = false;  // every parameter is simulated, however long it takes
};

// A model of which only the number of parameters is known: square matrices.
Layout made_up_model(std::size_t numel);

struct Forecast {
  std::string strategy;
  Pace pace = Pace::lockstep;
  int workers = 1;
  Seconds step{0};
  Seconds codec{0};                  // of it, the strategy's own computing, as measured here
  double efficiency = 1;             // computing / step, times the share of ranks that train
  double bytes_per_worker_step = 0;  // mean over the workers
  // What the busiest link needs for its bytes, if they are all that happens.
  Seconds wire_bound{0};
  double scale = 1;  // the payload was simulated so many times smaller
  std::vector<Figure> figures;
  std::vector<std::string> notes;  // what the strategy warns of, and where the part falls short
};

class Forecaster {
 public:
  explicit Forecaster(Workload workload);

  // ConfigError if it cannot be told for so many workers, with the reason.
  Forecast forecast(const std::string& strategy, int workers);

 private:
  // What two workers, the fewest that exchange anything, show of a strategy; nothing of one that
  // wants more of them.
  struct Habits {
    bool computes = true;
    Seconds codec{0};                 // of a step with all parameters
    double bytes_per_parameter = 0;   // that a worker sends
    double blocks_per_parameter = 0;  // that are dealt out among the workers, each as a whole
  };
  const Habits& habits_of(const Forecast& of);  // found once per strategy
  Habits find_habits(const Forecast& of) const;

  void rehearse_lockstep(const Habits& habits, Forecast& out) const;
  void rehearse_drifting(Forecast& out) const;
  // The part of the model to simulate: about so many parameters, which stand for all of them.
  Layout part_of(const Forecast& of, std::size_t numel) const;
  // As many as show what the strategy does with all of them.
  std::size_t faithful_numel(const Habits& habits, int workers) const;
  // ConfigError if it does not fit into memory.
  Rehearsal rehearsal(const Forecast& of, Layout part) const;
  void conclude(const Rehearsal& plan, const Rehearsed& result, Forecast& out) const;
  // Where the part is not like the whole: a note, or ConfigError if it would mislead.
  void check_matrices(const Rehearsal& plan, Forecast& out) const;
  void check_headers(const Rehearsal& plan, const Habits& habits, Forecast& out) const;
  void check_blocks(const Rehearsal& plan, const Forecast& out) const;

  Workload workload_;
  Makeup makeup_;
  std::map<std::string, Habits, std::less<>> habits_;
};

}  // namespace thinwire::cli
