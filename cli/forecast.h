// What a step of training will take and send, by strategy and number of workers: the real
// strategies on simulated workers. docs/plan.md tells how.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/rehearsal.h"
#include "thinwire/network.h"
#include "thinwire/strategy.h"

namespace thinwire::cli {

inline constexpr int kMostPlannedWorkers = 1024;

struct Workload {
  std::size_t numel = 0;
  Seconds step_time{0};  // what computing a step takes on one worker
  Network network;
};

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
};

// With how many parameters a strategy in lockstep is rehearsed first, each standing for several.
std::size_t part_of(std::size_t numel, int workers);

class Forecaster {
 public:
  explicit Forecaster(const Workload& workload) : workload_(workload) {}

  // ConfigError if it cannot be told for so many workers, with the reason.
  Forecast forecast(const std::string& strategy, int workers);

 private:
  // What the strategy itself computes in a step of two workers, which are the fewest that exchange
  // anything; nothing if it wants more of them. Measured once per strategy.
  std::optional<Seconds> codec_of_two(const Forecast& of);
  Seconds measure_codec(const Forecast& of, std::size_t affordable, int steps) const;
  void rehearse_lockstep(Forecast& out) const;
  void rehearse_drifting(Forecast& out) const;
  // A rehearsal with at most so many parameters, which stand for all of them. ConfigError if it
  // does not fit into memory.
  Rehearsal rehearsal(const Forecast& of, std::size_t affordable) const;
  void conclude(const Rehearsal& plan, const Rehearsed& result, Forecast& out) const;

  Workload workload_;
  std::map<std::string, std::optional<Seconds>, std::less<>> codec_;
};

}  // namespace thinwire::cli
