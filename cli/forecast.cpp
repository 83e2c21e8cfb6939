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

std::uint64_t memory_for(std::size_t numel, int workers, Pace pace) {
  return std::uint64_t{numel} * sizeof(float) * rehearsal_buffers(pace) *
         static_cast<std::uint64_t>(workers);
}

bool fits(std::size_t numel, int workers, Pace pace) {
  const std::optional<std::uint64_t> room = available_memory();
  return !room || static_cast<double>(memory_for(numel, workers, pace)) <=
                      kShareOfMemory * static_cast<double>(*room);
}

void check_memory(std::size_t numel, int workers, Pace pace) {
  if (fits(numel, workers, pace)) return;
  throw ConfigError(fmt::format(
      "{} simulated workers of {} floats need about {}, but only {} are available", workers, numel,
      gibibytes(memory_for(numel, workers, pace)), gibibytes(available_memory().value_or(0))));
}

double bytes_of_a_step(const std::string& strategy, std::size_t numel, int workers) {
  Rehearsal plan{strategy, workers, numel, Network{}};
  plan.warmup = 0;
  plan.counted = 1;
  return rehearse(plan).bytes_sent;
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

std::size_t payload_for(std::size_t numel, int workers, Pace pace, std::size_t affordable) {
  std::size_t out = std::min(numel, affordable);
  while (takes_ring(out, workers) != takes_ring(numel, workers)) {
    out = std::min(numel, out + out / 4 + 1);
  }
  check_memory(out, workers, pace);
  return out;
}

std::size_t proportional_payload(const std::string& strategy, std::size_t numel, int workers,
                                 std::size_t affordable) {
  constexpr std::size_t kProbe = 4;
  constexpr double kTolerance = 0.1;
  std::size_t out = payload_for(numel, workers, Pace::lockstep, affordable);
  if (out == numel || workers > kManyWorkers) return out;
  double bytes = bytes_of_a_step(strategy, out, workers);
  while (out < numel) {
    const std::size_t larger = std::min(numel, kProbe * out);
    if (!fits(larger, workers, Pace::lockstep)) return out;
    const double factor = static_cast<double>(larger) / static_cast<double>(out);
    const double more = bytes_of_a_step(strategy, larger, workers);
    if (std::abs(more - factor * bytes) <= kTolerance * more) return out;
    out = larger;
    bytes = more;
  }
  return out;
}

std::optional<Seconds> Forecaster::codec_at_full_size(const std::string& strategy, Pace pace) {
  if (const auto known = codec_.find(strategy); known != codec_.end()) return known->second;
  check_memory(workload_.numel, 2, pace);
  Rehearsal plan{strategy, 2, workload_.numel, Network{}, workload_.step_time};
  plan.charged = pace == Pace::lockstep ? 4 : 16;
  std::optional<Seconds>& out = codec_[strategy];
  try {
    out = rehearse(plan).codec;
  } catch (const ConfigError&) {
    // As servers on three ranks: the rehearsal with all workers tells, or says why not.
  }
  return out;
}

// What the strategy computes may grow with the number of workers, which the scaled payload tells;
// what it takes at least is measured with the full one.
void Forecaster::rehearse_lockstep(Forecast& out, bool computes) const {
  const ScaledPayload payload = scaled(
      workload_,
      proportional_payload(out.strategy, workload_.numel, out.workers, quick_payload(out.workers)));
  Rehearsal plan{out.strategy, out.workers, payload.numel, payload.network, workload_.step_time};
  const bool many = out.workers > kManyWorkers;
  plan.charged = !computes || out.workers == 2 ? 0 : many ? 1 : 2;
  plan.counted = many ? 1 : 2;
  const Rehearsed result = rehearse(plan);
  out.codec = std::max(out.codec, payload.scale * result.codec);
  conclude(payload, result, out);
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
  const ScaledPayload payload =
      scaled(workload_, payload_for(workload_.numel, out.workers, out.pace,
                                    std::max(kLeastMoved, kQuickMoves / moves)));
  Rehearsal plan{out.strategy, out.workers, payload.numel, payload.network, computing};
  Rehearsed result;
  for (plan.counted = steps;; plan.counted = std::min(kMostSteps, 4 * plan.counted)) {
    plan.warmup = plan.counted / 3;
    result = rehearse(plan);
    if (result.exchanges >= kExchangesToSee || plan.counted >= kMostSteps) break;
  }
  conclude(payload, result, out);
}

void Forecaster::conclude(const ScaledPayload& payload, const Rehearsed& result, Forecast& out) {
  out.step = result.step;
  out.scale = payload.scale;
  out.bytes_per_worker_step = payload.scale * result.bytes_sent;
  out.wire_bound = payload.network.transfer_time(static_cast<std::size_t>(result.busiest_bytes));
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

  const std::optional<Seconds> codec = codec_at_full_size(strategy, out.pace);
  out.codec = codec.value_or(Seconds(0));
  if (out.pace == Pace::lockstep) {
    rehearse_lockstep(out, codec != Seconds(0));
  } else {
    rehearse_drifting(out);
  }
  const double training = workers - made->first_worker(workers);
  out.efficiency = training / workers * (workload_.step_time / out.step);
  return out;
}

}  // namespace thinwire::cli
