#include "cli/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/memory.h"
#include "cli/numel.h"
#include "thinwire/collective.h"

namespace thinwire::cli {
namespace {

// Parameters of all simulated workers together for which a step takes a fraction of a second.
constexpr std::size_t kQuickTotal = std::size_t{1} << 24;
// Below so many per worker the headers of sparse messages, and the odd sizes of the last layer,
// would begin to count; worth more time, up to a limit.
constexpr std::size_t kFaithful = std::size_t{1} << 20;
constexpr std::size_t kPatientTotal = std::size_t{1} << 28;

// Workers that exchange models now and then are followed over many steps, each of which moves all
// parameters.
constexpr std::size_t kQuickMoves = std::size_t{1} << 27;
constexpr std::size_t kLeastMoved = std::size_t{1} << 14;  // per worker
constexpr int kFewestSteps = 96, kMostSteps = 4096;
constexpr double kAveragesToSee = 8;
constexpr int kExchangesToSee = 3;
constexpr int kMostDriftingWorkers = 256;

// With more of them, one step of a kind has to be enough.
constexpr int kManyWorkers = 64;

constexpr double kShareOfMemory = 0.8;

std::size_t quick_payload(int workers) {
  const auto count = static_cast<std::size_t>(workers);
  return std::max(kQuickTotal / count, std::min(kFaithful, kPatientTotal / count));
}

// Whether an all-reduce of so many floats goes round the ring.
bool takes_ring(std::size_t numel, int workers) {
  return allreduce_bytes(numel, 0, workers) == allreduce_bytes(numel, 0, workers, Route::ring);
}

void check_memory(std::size_t numel, int workers) {
  const std::uint64_t needed = std::uint64_t{numel} * sizeof(float) * kRehearsalBuffers *
                               static_cast<std::uint64_t>(workers);
  const std::optional<std::uint64_t> room = available_memory();
  if (!room || static_cast<double>(needed) <= kShareOfMemory * static_cast<double>(*room)) return;
  throw ConfigError(
      fmt::format("{} simulated workers of {} floats need about {}, but only {} are available",
                  workers, numel, gibibytes(needed), gibibytes(*room)));
}

// Enough for averages of all models to begin and end several times.
int drifting_steps(const Workload& workload, Seconds computing) {
  const Seconds average = workload.network.transfer_time(2 * sizeof(float) * workload.numel);
  const double steps = std::ceil(kAveragesToSee * average / computing);
  return static_cast<int>(std::clamp<double>(steps, kFewestSteps, kMostSteps));
}

}  // namespace

ScaledPayload scaled(const Workload& workload, std::size_t numel) {
  ScaledPayload out{numel, static_cast<double>(workload.numel) / static_cast<double>(numel),
                    workload.network};
  out.network.bits_per_second /= out.scale;
  return out;
}

std::size_t payload_for(std::size_t numel, int workers, std::size_t affordable) {
  std::size_t out = std::min(numel, affordable);
  while (takes_ring(out, workers) != takes_ring(numel, workers)) {
    out = std::min(numel, out + out / 4 + 1);
  }
  check_memory(out, workers);
  return out;
}

// Two workers are the fewest that exchange anything.
Seconds Forecaster::codec_at_full_size(const std::string& strategy, Pace pace) {
  if (const auto known = codec_.find(strategy); known != codec_.end()) return known->second;
  check_memory(workload_.numel, 2);
  Rehearsal plan{strategy, 2, workload_.numel, Network{}, workload_.step_time};
  plan.charged = pace == Pace::lockstep ? 4 : 16;
  return codec_[strategy] = rehearse(plan).codec;
}

// What the strategy computes may grow with the number of workers, which the scaled payload tells;
// what it takes at least is measured with the full one.
Rehearsed Forecaster::in_lockstep(Rehearsal plan, double scale, Forecast& out) {
  const bool computes = out.codec > Seconds(0);
  plan.computing = workload_.step_time;
  const bool many = plan.workers > kManyWorkers;
  plan.charged = !computes || plan.workers == 2 ? 0 : many ? 1 : 3;
  plan.counted = many ? 1 : 2;
  Rehearsed result = rehearse(plan);
  out.codec = std::max(out.codec, scale * result.codec);
  result.step += out.codec;
  return result;
}

Rehearsed Forecaster::drifting(Rehearsal plan, Forecast& out) const {
  plan.computing = workload_.step_time + out.codec;
  while (true) {
    plan.warmup = plan.counted / 3;
    Rehearsed result = rehearse(plan);
    if (result.exchanges >= kExchangesToSee || plan.counted >= kMostSteps) return result;
    plan.counted = std::min(kMostSteps, 4 * plan.counted);
  }
}

Forecast Forecaster::forecast(const std::string& strategy, int workers) {
  Forecast out;
  out.strategy = strategy;
  out.pace = make_strategy(strategy)->pace();
  out.workers = workers;
  out.step = workload_.step_time;
  if (workers == 1) return out;

  const bool lockstep = out.pace == Pace::lockstep;
  if (!lockstep && workers > kMostDriftingWorkers) {
    throw ConfigError(
        fmt::format("workers that exchange models are followed over many steps, up to {} of them",
                    kMostDriftingWorkers));
  }
  out.codec = codec_at_full_size(strategy, out.pace);
  const int steps = drifting_steps(workload_, workload_.step_time + out.codec);
  const std::size_t affordable =
      lockstep ? quick_payload(workers)
               : std::max(kLeastMoved, kQuickMoves / static_cast<std::size_t>(workers * steps));
  const ScaledPayload payload =
      scaled(workload_, payload_for(workload_.numel, workers, affordable));
  Rehearsal plan{strategy, workers, payload.numel, payload.network};
  plan.counted = steps;
  Rehearsed result = lockstep ? in_lockstep(plan, payload.scale, out) : drifting(plan, out);

  out.step = result.step;
  out.efficiency = workload_.step_time / out.step;
  out.scale = payload.scale;
  out.bytes_per_worker_step = payload.scale * result.bytes_sent;
  out.wire_bound = payload.network.transfer_time(static_cast<std::size_t>(result.busiest_bytes));
  out.figures = std::move(result.figures);
  return out;
}

}  // namespace thinwire::cli
