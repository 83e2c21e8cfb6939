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
  // Two workers are the fewest that exchange anything; nothing if the strategy wants more of them.
  std::optional<Seconds> codec_at_full_size(const std::string& strategy, Pace pace);
  void rehearse_lockstep(Forecast& out, bool computes) const;
  void rehearse_drifting(Forecast& out) const;
  static void conclude(const ScaledPayload& payload, const Rehearsed& result, Forecast& out);

  Workload workload_;
  // Measured once per strategy.
  std::map<std::string, std::optional<Seconds>, std::less<>> codec_;
};

// How many parameters to simulate on each of so many workers: at least as many as are affordable,
// and enough that all-reduce takes the same route as with all of them. ConfigError if that does not
// fit into memory.
std::size_t payload_for(std::size_t numel, int workers, Pace pace, std::size_t affordable);

// The same for a strategy in lockstep: enough that four times as many send four times the bytes.
// Otherwise an exchange inside the strategy takes another way when it is short.
std::size_t proportional_payload(const std::string& strategy, std::size_t numel, int workers,
                                 std::size_t affordable);

}  // namespace thinwire::cli
