#include "plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/memory.h"
#include "base/readable.h"
#include "base/spec.h"

namespace thinwire::plan {
namespace {

// With this side, all layers together have about as many rows and columns as ResNet-50.
constexpr std::size_t kLayerSide = 512;

// A simulated worker of a synchronous strategy has kFaithful parameters. With many workers the sum
// over all of them is limited to kPatientTotal, or to kLargestTotal where fewer parameters would
// not represent the model.
constexpr std::size_t kFaithful = std::size_t{1} << 20;
constexpr std::size_t kPatientTotal = std::size_t{1} << 28;
constexpr std::size_t kLargestTotal = std::size_t{1} << 29;
// From kLeastBytes per step on, the 40 bytes of a header do not matter. Below kFewBytes a note
// mentions them.
constexpr double kLeastBytes = 4096, kFewBytes = 1024;
// Blocks are divided almost evenly if there are slightly fewer than a multiple of the workers.
constexpr double kAlmostAll = 0.99;
// How much busier the busiest worker of the sampled layout may be than that of the whole, over the
// mean.
constexpr double kMostUneven = 1.1;
// How many more rows and columns the sampled layout may have than the whole, for its parameters.
constexpr double kMoreSides = 1.05;

// Workers that exchange models now and then are simulated over many steps, each of which updates
// all parameters.
constexpr std::size_t kQuickMoves = std::size_t{1} << 25;
constexpr std::size_t kLeastMoved = std::size_t{1} << 14;  // per worker
constexpr int kFewestSteps = 24, kMostSteps = 4096;        // as many as show enough exchanges
constexpr double kAveragesToSee = 8;
constexpr int kExchangesToSee = 3, kFewestExchanges = 2;
// Asynchronous workers notify each other of their progress in every step.
constexpr int kMostAsynchronousWorkers = 256;
// A worker quantizes its messages once it has received 16 in full precision; by chance some workers
// receive fewer.
constexpr double kMessagesToLearn = 32;

// With more workers than this, a single step is measured.
constexpr int kManyWorkers = 16;

// Steps differ if they send that share more or less than the step before, as with servers, whose
// messages depend on what the workers picked. Then the mean of several steps counts; with many
// workers, of fewer steps.
constexpr double kSteady = 0.02;
constexpr int kChangingSteps = 512, kFewestChanging = 4, kMostChanging = 24;

// The computing time of a strategy grows with the number of parameters once these are far more than
// the caches hold.
struct Trial {
  std::size_t numel;
  int steps;
};
constexpr Trial kFirstTrial{std::size_t{1} << 20, 2};  // whether it computes anything
constexpr Trial kSynchronousTrial{std::size_t{1} << 23, 12};
constexpr Trial kPeriodicTrial{std::size_t{1} << 21, 36};  // exchanges are rare

constexpr double kShareOfMemory = 0.8;

void check_memory(std::size_t numel, int workers, SyncMode sync_mode) {
  const std::uint64_t need = std::uint64_t{numel} * sizeof(float) * simulation_buffers(sync_mode) *
                             static_cast<std::uint64_t>(workers);
  const std::optional<std::uint64_t> room = base::available_memory();
  if (!room || static_cast<double>(need) <= kShareOfMemory * static_cast<double>(*room)) return;
  throw ConfigError(
      fmt::format("simulation: not enough memory ({} workers of {} floats need about {}, {} are "
                  "available); simulate fewer workers",
                  workers, numel, base::gibibytes(need), base::gibibytes(*room)));
}

// Returns enough steps for averages of all models to begin and end several times.
int periodic_steps(const Workload& workload, Seconds computing) {
  const Seconds average = workload.network.transfer_time(2 * sizeof(float) * workload.layout.numel);
  const double steps = std::ceil(kAveragesToSee * average / computing);
  return static_cast<int>(std::clamp<double>(steps, kFewestSteps, kMostSteps));
}

std::size_t largest_sample(int workers) {
  return kLargestTotal / static_cast<std::size_t>(workers);
}

// Returns whether the length of its messages depends on the sides of the matrices alone.
bool sends_sides(const std::string& strategy) {
  return make_strategy(strategy)->cost_profile().by_matrix_shape;
}

bool sends_few_bits(const std::string& strategy) {
  return make_strategy(strategy)->cost_profile().quantizes_later;
}

double sides_per_parameter(const Layout& layout) {
  const LayoutSummary summary = summarize_layout(layout);
  return static_cast<double>(summary.rows + summary.columns) / summary.numel();
}

// Returns how many times the mean the worker with most blocks has.
double unevenness(double blocks_per_worker) {
  return std::ceil(blocks_per_worker) / blocks_per_worker;
}

}  // namespace

Layout synthetic_model(std::size_t numel) { return layered(numel, kLayerSide); }

Planner::Planner(Workload workload)
    : workload_(std::move(workload)), layout_summary_(summarize_layout(workload_.layout)) {}

Layout Planner::sampled_layout(const Prediction& of, std::size_t numel) const {
  if (workload_.full || numel >= workload_.layout.numel) return workload_.layout;
  if (sends_sides(of.strategy))
    return reduced(limited(layout_summary_, largest_sample(of.workers)), numel);
  const double matrices = std::ceil(static_cast<double>(numel) / layout_summary_.numel());
  const auto each = static_cast<std::size_t>(static_cast<double>(numel) / matrices);
  return reduced(limited(layout_summary_, each), numel);
}

std::size_t Planner::faithful_numel(const StrategyProfile& profile, int workers) const {
  const std::size_t patient = kPatientTotal / static_cast<std::size_t>(workers);
  const auto most = static_cast<double>(largest_sample(workers));
  auto out = static_cast<double>(std::min(kFaithful, patient));
  if (profile.bytes_per_parameter > 0) {
    out = std::max(out, kLeastBytes / profile.bytes_per_parameter);
  }
  out = std::min(out, most);
  if (profile.blocks_per_parameter > 0) {
    const double once = kAlmostAll * workers / profile.blocks_per_parameter;
    const double times = std::min(std::ceil(out / once), std::floor(most / once));
    if (times >= 1) out = once * times;
  }
  return static_cast<std::size_t>(std::min(out, static_cast<double>(workload_.layout.numel)));
}

SimulationSpec Planner::simulation_spec(const Prediction& of, Layout sampled) const {
  check_memory(sampled.numel, of.workers, of.sync_mode);
  SimulationSpec spec{of.strategy, of.workers, std::move(sampled), workload_.network,
                      workload_.step_time};
  spec.scale = static_cast<double>(workload_.layout.numel) / static_cast<double>(spec.layout.numel);
  spec.steps = workload_.steps;
  return spec;
}

Planner::StrategyProfile Planner::measure_profile(const Prediction& of) const {
  Prediction two = of;
  two.workers = 2;
  StrategyProfile out;
  const auto try_out = [&](const Trial& trial) {
    const std::size_t numel = std::min(trial.numel, workload_.layout.numel);
    SimulationSpec spec = simulation_spec(two, reduced(limited(layout_summary_, numel), numel));
    spec.network = Network{};
    spec.counted = trial.steps;
    const SimulationResult result = simulate_strategy(spec);
    out.codec = spec.scale * result.codec;
    out.computes = result.codec > Seconds(0);
    out.bytes_per_parameter = result.bytes_sent / static_cast<double>(spec.layout.numel);
    out.blocks_per_parameter = result.cost.blocks / static_cast<double>(workload_.layout.numel);
  };
  if (of.sync_mode != SyncMode::synchronous) {
    try_out(kPeriodicTrial);
    return out;
  }
  try_out(kFirstTrial);
  if (out.computes) try_out(kSynchronousTrial);
  return out;
}

const Planner::StrategyProfile& Planner::profile_of(const Prediction& of) {
  if (const auto known = profiles_.find(of.strategy); known != profiles_.end())
    return known->second;
  StrategyProfile& out = profiles_[of.strategy];
  try {
    out = measure_profile(of);
  } catch (const ConfigError&) {
    // The strategy needs more than two workers, for example for its servers. The simulation with
    // all workers still runs, or says why it cannot.
  }
  return out;
}

// The strategy's computing time may grow with the number of workers; its least value was measured
// with more parameters. A strategy that computes nothing needs no warm-up: it keeps no values back,
// as servers do.
void Planner::simulate_synchronous(const StrategyProfile& profile, Prediction& out) const {
  const bool many = out.workers > kManyWorkers;
  const std::size_t numel = faithful_numel(profile, out.workers);
  SimulationSpec spec = simulation_spec(out, sampled_layout(out, numel));
  spec.warmup = !profile.computes ? 0 : many ? 3 : 4;
  spec.counted = many ? 1 : 2;
  SimulationResult result = simulate_strategy(spec);
  if (result.change > kSteady) {
    spec.counted = std::clamp(kChangingSteps / out.workers, kFewestChanging, kMostChanging);
    spec.warmup = spec.counted / 2;
    result = simulate_strategy(spec);
  }
  out.codec = std::max(profile.codec, spec.scale * result.codec);
  conclude(spec, result, out);
  out.step += out.codec;
  check_blocks(spec, out);
  check_matrices(spec, out);
  check_headers(spec, profile, out);
}

// These strategies compute while exchanges run in the background, so their computing is part of the
// simulation.
void Planner::simulate_periodic(Prediction& out) const {
  if (out.sync_mode == SyncMode::asynchronous && out.workers > kMostAsynchronousWorkers) {
    throw ConfigError(
        fmt::format("simulation: too many asynchronous workers ({}; at most {}, because they are "
                    "simulated over many steps)",
                    out.workers, kMostAsynchronousWorkers));
  }
  const Seconds computing = workload_.step_time + out.codec;
  const bool few_bits = sends_few_bits(out.strategy);
  SimulationSpec spec;
  SimulationResult result;
  int least_warmup = 0;
  for (int steps = periodic_steps(workload_, computing);;) {
    const auto moves = static_cast<std::size_t>(out.workers) * static_cast<std::size_t>(steps);
    spec = simulation_spec(out, sampled_layout(out, std::max(kLeastMoved, kQuickMoves / moves)));
    spec.computing = computing;
    spec.counted = steps;
    spec.warmup = std::max(steps / 3, least_warmup);
    result = simulate_strategy(spec);
    const bool seen = result.exchanges >= kExchangesToSee || steps >= kMostSteps;
    const bool steady = !few_bits || result.coded || spec.warmup >= kMostSteps;
    if (seen && steady) break;
    if (!seen) steps = std::min(kMostSteps, 4 * steps);
    if (steady) continue;
    const double rate = result.cost.exchanges / (spec.warmup + spec.counted);
    const double learning = kMessagesToLearn / std::max(rate, 1e-9);
    least_warmup = static_cast<int>(
        std::clamp<double>(learning, 2 * spec.warmup, static_cast<double>(kMostSteps)));
  }
  if (result.exchanges < kFewestExchanges) {
    throw ConfigError(
        fmt::format("{}: in {} simulated steps a worker sent its model {} times; too rarely to "
                    "predict what a step sends",
                    out.strategy, spec.counted, result.exchanges));
  }
  conclude(spec, result, out);
  if (few_bits && !result.coded) {
    out.notes.push_back(fmt::format(
        "after {} steps not all workers had received the 16 full-precision messages after which "
        "messages are quantized: later steps send less",
        spec.warmup));
  }
}

void Planner::conclude(const SimulationSpec& spec, const SimulationResult& result,
                       Prediction& out) const {
  out.step = result.step;
  out.scale = spec.scale;
  const auto of_all = [&](double bytes) {
    return spec.scale * (bytes - result.fixed_bytes) + result.fixed_bytes;
  };
  out.bytes_per_worker_step = of_all(result.bytes_sent);
  out.wire_bound =
      workload_.network.transfer_time(static_cast<std::size_t>(of_all(result.busiest_bytes)));
  out.metrics = result.metrics;
  out.notes = result.warnings;
  // Strategies report bytes as represented by the sampled layout; their computing was that of the
  // sample alone.
  for (Metric& metric : out.metrics) {
    if (metric.is_computing) metric.amount *= spec.scale;
  }
  // The simulated steps reach a small coverage; that of the whole run is proportional to its steps.
  std::erase_if(out.metrics, [](const Metric& each) { return each.name == "coverage_predicted"; });
  for (Metric& metric : out.metrics) {
    if (metric.name != "coverage") continue;
    metric.amount *= static_cast<double>(spec.steps) / (spec.warmup + spec.counted);
  }
  out.blocks_per_worker = result.cost.blocks / spec.workers;
}

void Planner::check_blocks(const SimulationSpec& spec, const Prediction& out) const {
  if (out.blocks_per_worker == 0 || spec.scale == 1) return;
  const double blocks = out.blocks_per_worker / spec.scale;
  const double ratio = unevenness(blocks) / unevenness(out.blocks_per_worker);
  if (ratio <= kMostUneven) return;
  throw ConfigError(fmt::format(
      "{}: its values are divided among the workers in blocks of 256, {:.3g} for each; the part of "
      "the model that can be simulated has only {:.3g}, which would look {:.1f} times as slow",
      out.strategy, out.blocks_per_worker, blocks, ratio));
}

void Planner::check_matrices(const SimulationSpec& spec, Prediction& out) const {
  if (!sends_sides(out.strategy) || spec.scale == 1) return;
  const double ratio = sides_per_parameter(spec.layout) / sides_per_parameter(workload_.layout);
  if (ratio <= kMoreSides) return;
  out.notes.push_back(fmt::format(
      "its matrices were cut down to {} x {} to be simulated: it sends up to {:.1f} times less",
      spec.layout.tensors[0].shape[0], spec.layout.tensors[0].shape[1], ratio));
}

void Planner::check_headers(const SimulationSpec& spec, const StrategyProfile& profile,
                            Prediction& out) const {
  const double bytes = profile.bytes_per_parameter * static_cast<double>(spec.layout.numel);
  if (spec.scale == 1 || bytes == 0 || bytes >= kFewBytes) return;
  out.notes.push_back(fmt::format(
      "messages of the part that was simulated are so short ({:.0f} bytes) that their headers "
      "count, and are multiplied: it sends less",
      bytes));
}

Prediction Planner::predict(const std::string& strategy, int workers) {
  Prediction out;
  out.strategy = strategy;
  const auto made = make_strategy(strategy);
  out.sync_mode = sync_mode_of(*made);
  out.workers = workers;
  out.step = workload_.step_time;
  if (workers == 1) return out;  // nobody to exchange with

  const StrategyProfile& profile = profile_of(out);
  if (out.sync_mode == SyncMode::synchronous) {
    simulate_synchronous(profile, out);
  } else {
    out.codec = profile.codec;
    simulate_periodic(out);
  }
  const double training = workers - serving_ranks_of(*made, workers);
  out.efficiency = training / workers * (workload_.step_time / out.step);
  return out;
}

}  // namespace thinwire::plan
