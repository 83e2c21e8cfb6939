#include "cli/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/memory.h"
#include "cli/numel.h"

namespace thinwire::cli {
namespace {

// Parameters of a simulated worker. With fewer the headers of sparse messages, and the odd sizes of
// the last layer, would begin to count; of many workers the sum is limited instead.
constexpr std::size_t kFaithful = std::size_t{1} << 20;
constexpr std::size_t kPatientTotal = std::size_t{1} << 27;

// Workers that exchange models now and then are followed over many steps, each of which moves all
// parameters.
constexpr std::size_t kQuickMoves = std::size_t{1} << 25;
constexpr std::size_t kLeastMoved = std::size_t{1} << 14;  // per worker
constexpr int kFewestSteps = 96, kMostSteps = 4096;
constexpr double kAveragesToSee = 8;
constexpr int kExchangesToSee = 3;
constexpr int kMostDriftingWorkers = 256;

// With more of them, one step of a kind has to be enough.
constexpr int kManyWorkers = 16;

// What a strategy computes grows with the parameters once they are far more than the caches hold.
struct CodecTrial {
  std::size_t numel;
  int steps;
};
constexpr CodecTrial kLockstepTrial{std::size_t{1} << 23, 4};
constexpr CodecTrial kDriftingTrial{std::size_t{1} << 21, 36};  // a letter goes out now and then

constexpr double kShareOfMemory = 0.8;

void check_memory(std::size_t numel, int workers, Pace pace) {
  const std::uint64_t need = std::uint64_t{numel} * sizeof(float) * rehearsal_buffers(pace) *
                             static_cast<std::uint64_t>(workers);
  const std::optional<std::uint64_t> room = available_memory();
  if (!room || static_cast<double>(need) <= kShareOfMemory * static_cast<double>(*room)) return;
  throw ConfigError(
      fmt::format("{} simulated workers of {} floats need about {}, but only {} are available",
                  workers, numel, gibibytes(need), gibibytes(*room)));
}

// Enough for averages of all models to begin and end several times.
int drifting_steps(const Workload& workload, Seconds computing) {
  const Seconds average = workload.network.transfer_time(2 * sizeof(float) * workload.numel);
  const double steps = std::ceil(kAveragesToSee * average / computing);
  return static_cast<int>(std::clamp<double>(steps, kFewestSteps, kMostSteps));
}

}  // namespace

std::size_t part_of(std::size_t numel, int workers) {
  return std::min({numel, kFaithful, kPatientTotal / static_cast<std::size_t>(workers)});
}

Rehearsal Forecaster::rehearsal(const Forecast& of, std::size_t affordable) const {
  Rehearsal plan{of.strategy, of.workers, std::min(workload_.numel, affordable), workload_.network,
                 workload_.step_time};
  check_memory(plan.numel, plan.workers, of.pace);
  plan.scale = static_cast<double>(workload_.numel) / static_cast<double>(plan.numel);
  return plan;
}

// Without a network: workers whose clocks differ by what they compute would share it in so many
// ways that the simulator takes longer than they do.
Seconds Forecaster::measure_codec(const Forecast& of, std::size_t affordable, int steps) const {
  Rehearsal plan = rehearsal(of, affordable);
  plan.network = Network{};
  plan.charged = steps;
  return plan.scale * rehearse(plan).codec;
}

std::optional<Seconds> Forecaster::codec_of_two(const Forecast& of) {
  if (const auto known = codec_.find(of.strategy); known != codec_.end()) return known->second;
  const CodecTrial trial = of.pace == Pace::lockstep ? kLockstepTrial : kDriftingTrial;
  Forecast two = of;
  two.workers = 2;
  std::optional<Seconds>& out = codec_[of.strategy];
  try {
    out = measure_codec(two, trial.numel, trial.steps);
  } catch (const ConfigError&) {
    // As servers on three ranks: the rehearsal with all workers tells, or says why not.
  }
  return out;
}

// What the strategy computes may grow with the number of workers; what it takes at least was
// measured with more parameters. One that computes nothing has nothing to settle, either, such as
// what servers keep back.
void Forecaster::rehearse_lockstep(Forecast& out) const {
  const bool many = out.workers > kManyWorkers;
  const bool computes = codec_.at(out.strategy) != Seconds(0);
  const std::size_t affordable = part_of(workload_.numel, out.workers);
  if (computes && out.workers > 2) {
    out.codec = std::max(out.codec, measure_codec(out, affordable, many ? 1 : 2));
  }
  Rehearsal plan = rehearsal(out, affordable);
  plan.warmup = !computes ? 0 : many ? 2 : 4;
  plan.counted = many ? 1 : 2;
  conclude(plan, rehearse(plan), out);
  out.step += out.codec;
}

// Their own computing goes on beside exchanges in the background, so it is part of the rehearsal.
void Forecaster::rehearse_drifting(Forecast& out) const {
  if (out.workers > kMostDriftingWorkers) {
    throw ConfigError(
        fmt::format("workers that exchange models are followed over many steps, up to {} of them",
                    kMostDriftingWorkers));
  }
  const Seconds computing = workload_.step_time + out.codec;
  const int steps = drifting_steps(workload_, computing);
  const auto moves = static_cast<std::size_t>(out.workers) * static_cast<std::size_t>(steps);
  Rehearsal plan = rehearsal(out, std::max(kLeastMoved, kQuickMoves / moves));
  plan.computing = computing;
  Rehearsed result;
  for (plan.counted = steps;; plan.counted = std::min(kMostSteps, 4 * plan.counted)) {
    plan.warmup = plan.counted / 3;
    result = rehearse(plan);
    if (result.exchanges >= kExchangesToSee || plan.counted >= kMostSteps) break;
  }
  conclude(plan, result, out);
}

void Forecaster::conclude(const Rehearsal& plan, const Rehearsed& result, Forecast& out) const {
  out.step = result.step;
  out.scale = plan.scale;
  out.bytes_per_worker_step = plan.scale * result.bytes_sent;
  out.wire_bound =
      workload_.network.transfer_time(static_cast<std::size_t>(plan.scale * result.busiest_bytes));
  out.figures = result.figures;
}

Forecast Forecaster::forecast(const std::string& strategy, int workers) {
  Forecast out;
  out.strategy = strategy;
  const auto made = make_strategy(strategy);
  out.pace = made->pace();
  out.workers = workers;
  out.step = workload_.step_time;
  if (workers == 1) return out;  // nobody to exchange with

  out.codec = codec_of_two(out).value_or(Seconds(0));
  if (out.pace == Pace::lockstep) {
    rehearse_lockstep(out);
  } else {
    rehearse_drifting(out);
  }
  const double training = workers - made->first_worker(workers);
  out.efficiency = training / workers * (workload_.step_time / out.step);
  return out;
}

}  // namespace thinwire::cli
