#include "plan/planner.h"
#include "base/readable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/memory.h"
#include "base/spec.h"

namespace thinwire::plan {
namespace {

// Rows and columns of all layers together are then about as many as those of ResNet-50.
constexpr std::size_t kLayerSide = 512;

// Parameters of a simulated worker in synchronous; of many workers the sum is limited instead, and
// where that would not be faithful, a larger sum.
constexpr std::size_t kFaithful = std::size_t{1} << 20;
constexpr std::size_t kPatientTotal = std::size_t{1} << 28;
constexpr std::size_t kLargestTotal = std::size_t{1} << 29;
// What a worker sends in a step, so that 40 bytes of header do not count,
constexpr double kLeastBytes = 4096;
// or that they should be spoken of.
constexpr double kFewBytes = 1024;
// Blocks are dealt out almost evenly if there are slightly fewer than a multiple of the workers.
constexpr double kAlmostAll = 0.99;
// How much busier the busiest worker of the part may be than that of the whole, over the mean.
constexpr double kMostUneven = 1.1;
// How many more rows and columns the part may have than the whole, for its parameters.
constexpr double kMoreSides = 1.05;

// Workers that exchange models now and then are followed over many steps, each of which moves all
// parameters.
constexpr std::size_t kQuickMoves = std::size_t{1} << 25;
constexpr std::size_t kLeastMoved = std::size_t{1} << 14;  // per worker
constexpr int kFewestSteps = 24, kMostSteps = 4096;        // more of them until enough was seen
constexpr double kAveragesToSee = 8;
constexpr int kExchangesToSee = 3, kFewestExchanges = 2;
constexpr int kMostFreeWorkers = 256;  // who tell each other in every step how far they are
// Letters in few bits begin when 16 whole ones have come; chance gives some workers fewer.
constexpr double kMessagesToLearn = 32;

// With more of them, one step of a kind has to be enough.
constexpr int kManyWorkers = 16;

// Steps differ if they send that much more or less than the one before, as with servers, which send
// what happened to be picked: then the mean of many counts, of fewer if there are many workers.
constexpr double kSteady = 0.02;
constexpr int kChangingSteps = 512, kFewestChanging = 4, kMostChanging = 24;

// What a strategy computes grows with the parameters once they are far more than the caches hold.
struct Trial {
  std::size_t numel;
  int steps;
};
constexpr Trial kFirstTrial{std::size_t{1} << 20, 2};  // whether it computes anything
constexpr Trial kLockstepTrial{std::size_t{1} << 23, 12};
constexpr Trial kDriftingTrial{std::size_t{1} << 21, 36};  // a letter goes out now and then

constexpr double kShareOfMemory = 0.8;

void check_memory(std::size_t numel, int workers, SyncMode sync_mode) {
  const std::uint64_t need = std::uint64_t{numel} * sizeof(float) * simulation_buffers(sync_mode) *
                             static_cast<std::uint64_t>(workers);
  const std::optional<std::uint64_t> room = base::available_memory();
  if (!room || static_cast<double>(need) <= kShareOfMemory * static_cast<double>(*room)) return;
  throw ConfigError(
      fmt::format("{} simulated workers of {} floats need about {}, but only {} are available",
                  workers, numel, base::gibibytes(need), base::gibibytes(*room)));
}

// Enough for averages of all models to begin and end several times.
int drifting_steps(const Workload& workload, Seconds computing) {
  const Seconds average = workload.network.transfer_time(2 * sizeof(float) * workload.layout.numel);
  const double steps = std::ceil(kAveragesToSee * average / computing);
  return static_cast<int>(std::clamp<double>(steps, kFewestSteps, kMostSteps));
}

std::size_t largest_part(int workers) { return kLargestTotal / static_cast<std::size_t>(workers); }

// Its messages are as long as the sides of the matrices, whatever these hold.
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

// What the worker with most of the blocks has, over the mean.
double unevenness(double blocks_per_worker) {
  return std::ceil(blocks_per_worker) / blocks_per_worker;
}

}  // namespace

Layout synthetic_model(std::size_t numel) { return layered(numel, kLayerSide); }

Planner::Planner(Workload workload)
    : workload_(std::move(workload)), layout_summary_(summarize_layout(workload_.layout)) {}

Layout Planner::part_of(const Prediction& of, std::size_t numel) const {
  if (workload_.full || numel >= workload_.layout.numel) return workload_.layout;
  if (sends_sides(of.strategy))
    return reduced(limited(layout_summary_, largest_part(of.workers)), numel);
  const double matrices = std::ceil(static_cast<double>(numel) / layout_summary_.numel());
  const auto each = static_cast<std::size_t>(static_cast<double>(numel) / matrices);
  return reduced(limited(layout_summary_, each), numel);
}

std::size_t Planner::faithful_numel(const StrategyProfile& profile, int workers) const {
  const std::size_t patient = kPatientTotal / static_cast<std::size_t>(workers);
  const auto most = static_cast<double>(largest_part(workers));
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

SimulationSpec Planner::simulation_spec(const Prediction& of, Layout part) const {
  check_memory(part.numel, of.workers, of.sync_mode);
  SimulationSpec plan{of.strategy, of.workers, std::move(part), workload_.network,
                      workload_.step_time};
  plan.scale = static_cast<double>(workload_.layout.numel) / static_cast<double>(plan.layout.numel);
  return plan;
}

Planner::StrategyProfile Planner::measure_profile(const Prediction& of) const {
  Prediction two = of;
  two.workers = 2;
  StrategyProfile out;
  const auto try_out = [&](const Trial& trial) {
    const std::size_t numel = std::min(trial.numel, workload_.layout.numel);
    SimulationSpec plan = simulation_spec(two, reduced(limited(layout_summary_, numel), numel));
    plan.network = Network{};
    plan.counted = trial.steps;
    const SimulationResult result = simulate_strategy(plan);
    out.codec = plan.scale * result.codec;
    out.computes = result.codec > Seconds(0);
    out.bytes_per_parameter = result.bytes_sent / static_cast<double>(plan.layout.numel);
    out.blocks_per_parameter = result.cost.blocks / static_cast<double>(workload_.layout.numel);
  };
  if (of.sync_mode != SyncMode::synchronous) {
    try_out(kDriftingTrial);
    return out;
  }
  try_out(kFirstTrial);
  if (out.computes) try_out(kLockstepTrial);
  return out;
}

const Planner::StrategyProfile& Planner::profile_of(const Prediction& of) {
  if (const auto known = profiles_.find(of.strategy); known != profiles_.end())
    return known->second;
  StrategyProfile& out = profiles_[of.strategy];
  try {
    out = measure_profile(of);
  } catch (const ConfigError&) {
    // As servers on three ranks: the simulation_spec with all workers tells, or says why not.
  }
  return out;
}

// What the strategy computes may grow with the number of workers; what it takes at least was
// measured with more parameters. One that computes nothing has nothing to quiesce, either, such as
// what servers keep back.
void Planner::simulate_synchronous(const StrategyProfile& profile, Prediction& out) const {
  const bool many = out.workers > kManyWorkers;
  const std::size_t numel = faithful_numel(profile, out.workers);
  SimulationSpec plan = simulation_spec(out, part_of(out, numel));
  plan.warmup = !profile.computes ? 0 : many ? 3 : 4;
  plan.counted = many ? 1 : 2;
  SimulationResult result = simulate_strategy(plan);
  if (result.change > kSteady) {
    plan.counted = std::clamp(kChangingSteps / out.workers, kFewestChanging, kMostChanging);
    plan.warmup = plan.counted / 2;
    result = simulate_strategy(plan);
  }
  out.codec = std::max(profile.codec, plan.scale * result.codec);
  conclude(plan, result, out);
  out.step += out.codec;
  check_blocks(plan, out);
  check_matrices(plan, out);
  check_headers(plan, profile, out);
}

// Their own computing goes on beside exchanges in the background, so it is part of the
// simulation_spec.
void Planner::simulate_periodic(Prediction& out) const {
  if (out.sync_mode == SyncMode::asynchronous && out.workers > kMostFreeWorkers) {
    throw ConfigError(fmt::format(
        "workers asynchronously are followed over many steps, up to {} of them", kMostFreeWorkers));
  }
  const Seconds computing = workload_.step_time + out.codec;
  const bool few_bits = sends_few_bits(out.strategy);
  SimulationSpec plan;
  SimulationResult result;
  int settling = 0;
  for (int steps = drifting_steps(workload_, computing);;) {
    const auto moves = static_cast<std::size_t>(out.workers) * static_cast<std::size_t>(steps);
    plan = simulation_spec(out, part_of(out, std::max(kLeastMoved, kQuickMoves / moves)));
    plan.computing = computing;
    plan.counted = steps;
    plan.warmup = std::max(steps / 3, settling);
    result = simulate_strategy(plan);
    const bool seen = result.exchanges >= kExchangesToSee || steps >= kMostSteps;
    const bool settled = !few_bits || result.coded || plan.warmup >= kMostSteps;
    if (seen && settled) break;
    if (!seen) steps = std::min(kMostSteps, 4 * steps);
    if (settled) continue;
    const double rate = result.cost.exchanges / (plan.warmup + plan.counted);
    const double learning = kMessagesToLearn / std::max(rate, 1e-9);
    settling = static_cast<int>(
        std::clamp<double>(learning, 2 * plan.warmup, static_cast<double>(kMostSteps)));
  }
  if (result.exchanges < kFewestExchanges) {
    throw ConfigError(
        fmt::format("{}: in {} simulated steps a worker sent its model {} times; too rarely to "
                    "predict what a step sends",
                    out.strategy, plan.counted, result.exchanges));
  }
  conclude(plan, result, out);
  if (few_bits && !result.coded) {
    out.notes.push_back(fmt::format(
        "after {} steps not all workers had received the 16 full-precision messages after which "
        "messages are quantized: later steps send less",
        plan.warmup));
  }
}

void Planner::conclude(const SimulationSpec& plan, const SimulationResult& result,
                       Prediction& out) const {
  out.step = result.step;
  out.scale = plan.scale;
  const auto of_all = [&](double bytes) {
    return plan.scale * (bytes - result.fixed_bytes) + result.fixed_bytes;
  };
  out.bytes_per_worker_step = of_all(result.bytes_sent);
  out.wire_bound =
      workload_.network.transfer_time(static_cast<std::size_t>(of_all(result.busiest_bytes)));
  out.metrics = result.metrics;
  out.notes = result.warnings;
  // Strategies report bytes as represented by the part; their computing was that of the part alone.
  for (Metric& metric : out.metrics) {
    if (metric.is_computing) metric.amount *= plan.scale;
  }
  out.blocks_per_worker = result.cost.blocks / plan.workers;
}

void Planner::check_blocks(const SimulationSpec& plan, const Prediction& out) const {
  if (out.blocks_per_worker == 0 || plan.scale == 1) return;
  const double blocks = out.blocks_per_worker / plan.scale;
  const double ratio = unevenness(blocks) / unevenness(out.blocks_per_worker);
  if (ratio <= kMostUneven) return;
  throw ConfigError(fmt::format(
      "{}: its values are divided among the workers in blocks of 256, {:.3g} for each; the part of "
      "the model that can be simulated has only {:.3g}, which would look {:.1f} times as slow",
      out.strategy, out.blocks_per_worker, blocks, ratio));
}

void Planner::check_matrices(const SimulationSpec& plan, Prediction& out) const {
  if (!sends_sides(out.strategy) || plan.scale == 1) return;
  const double ratio = sides_per_parameter(plan.layout) / sides_per_parameter(workload_.layout);
  if (ratio <= kMoreSides) return;
  out.notes.push_back(fmt::format(
      "its matrices were cut down to {} x {} to be simulated: it sends up to {:.1f} times less",
      plan.layout.tensors[0].shape[0], plan.layout.tensors[0].shape[1], ratio));
}

void Planner::check_headers(const SimulationSpec& plan, const StrategyProfile& profile,
                            Prediction& out) const {
  const double bytes = profile.bytes_per_parameter * static_cast<double>(plan.layout.numel);
  if (plan.scale == 1 || bytes == 0 || bytes >= kFewBytes) return;
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
