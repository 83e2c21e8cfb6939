// What a step of training will take and send, by strategy and number of workers: the real
// strategies on simulated workers. docs/plan.md tells how.
#pragma once

#include <map>
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
  Seconds codec{0};  // of it, the strategy's own computing, as measured here
  double efficiency = 1;
  double bytes_per_worker_step = 0;  // mean over the workers
  // What the busiest link needs for its bytes, if they are all that happens.
  Seconds wire_bound{0};
  double scale = 1;  // the payload was simulated so many times smaller
  std::vector<Figure> figures;
};

// A payload of numel / scale on links that are as many times slower takes as long.
struct ScaledPayload {
  std::size_t numel = 0;
  double scale = 1;
  Network network;
};
ScaledPayload scaled(const Workload& workload, std::size_t numel);

class Forecaster {
 public:
  explicit Forecaster(const Workload& workload) : workload_(workload) {}

  // ConfigError if it cannot be told for so many workers, with the reason.
  Forecast forecast(const std::string& strategy, int workers);

 private:
  Seconds codec_at_full_size(const std::string& strategy, Pace pace);
  Rehearsed in_lockstep(Rehearsal plan, double scale, Forecast& out);
  Rehearsed drifting(Rehearsal plan, Forecast& out) const;

  Workload workload_;
  std::map<std::string, Seconds, std::less<>> codec_;  // measured once per strategy
};

// How many parameters to simulate on each of so many workers: as many as time and memory allow,
// and enough that the collectives take the same routes as with all of them. ConfigError if that is
// too much.
std::size_t payload_for(std::size_t numel, int workers, std::size_t affordable);

}  // namespace thinwire::cli
