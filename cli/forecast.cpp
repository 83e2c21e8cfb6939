#include "cli/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/memory.h"
#include "cli/numel.h"
#include "thinwire/spec.h"

namespace thinwire::cli {
namespace {

// Rows and columns of all layers together are then about as many as those of ResNet-50.
constexpr std::size_t kLayerSide = 512;

// Parameters of a simulated worker in lockstep; of many workers the sum is limited instead, and
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
constexpr double kLettersToLearn = 32;

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
  const Seconds average = workload.network.transfer_time(2 * sizeof(float) * workload.layout.numel);
  const double steps = std::ceil(kAveragesToSee * average / computing);
  return static_cast<int>(std::clamp<double>(steps, kFewestSteps, kMostSteps));
}

std::size_t largest_part(int workers) { return kLargestTotal / static_cast<std::size_t>(workers); }

// Its messages are as long as the sides of the matrices, whatever these hold.
bool sends_sides(const std::string& strategy) { return Spec::parse(strategy).name() == "powersgd"; }

bool sends_few_bits(const std::string& strategy) {
  Spec spec = Spec::parse(strategy);
  return spec.name() == "gossip" && spec.text("bits", "32", "") != "32";
}

double sides_per_parameter(const Layout& layout) {
  const Makeup makeup = makeup_of(layout);
  return static_cast<double>(makeup.rows + makeup.columns) / makeup.numel();
}

// What the worker with most of the blocks has, over the mean.
double unevenness(double blocks_per_worker) {
  return std::ceil(blocks_per_worker) / blocks_per_worker;
}

}  // namespace

Layout made_up_model(std::size_t numel) { return layered(numel, kLayerSide); }

Forecaster::Forecaster(Workload workload)
    : workload_(std::move(workload)), makeup_(makeup_of(workload_.layout)) {}

Layout Forecaster::part_of(const Forecast& of, std::size_t numel) const {
  if (workload_.full || numel >= workload_.layout.numel) return workload_.layout;
  if (sends_sides(of.strategy)) return reduced(limited(makeup_, largest_part(of.workers)), numel);
  const double matrices = std::ceil(static_cast<double>(numel) / makeup_.numel());
  const auto each = static_cast<std::size_t>(static_cast<double>(numel) / matrices);
  return reduced(limited(makeup_, each), numel);
}

std::size_t Forecaster::faithful_numel(const Habits& habits, int workers) const {
  const std::size_t patient = kPatientTotal / static_cast<std::size_t>(workers);
  const auto most = static_cast<double>(largest_part(workers));
  auto out = static_cast<double>(std::min(kFaithful, patient));
  if (habits.bytes_per_parameter > 0) {
    out = std::max(out, kLeastBytes / habits.bytes_per_parameter);
  }
  out = std::min(out, most);
  if (habits.blocks_per_parameter > 0) {
    const double once = kAlmostAll * workers / habits.blocks_per_parameter;
    const double times = std::min(std::ceil(out / once), std::floor(most / once));
    if (times >= 1) out = once * times;
  }
  return static_cast<std::size_t>(std::min(out, static_cast<double>(workload_.layout.numel)));
}

Rehearsal Forecaster::rehearsal(const Forecast& of, Layout part) const {
  check_memory(part.numel, of.workers, of.pace);
  Rehearsal plan{of.strategy, of.workers, std::move(part), workload_.network, workload_.step_time};
  plan.scale = static_cast<double>(workload_.layout.numel) / static_cast<double>(plan.layout.numel);
  return plan;
}

Forecaster::Habits Forecaster::find_habits(const Forecast& of) const {
  Forecast two = of;
  two.workers = 2;
  Habits out;
  const auto try_out = [&](const Trial& trial) {
    const std::size_t numel = std::min(trial.numel, workload_.layout.numel);
    Rehearsal plan = rehearsal(two, reduced(limited(makeup_, numel), numel));
    plan.network = Network{};
    plan.counted = trial.steps;
    const Rehearsed result = rehearse(plan);
    out.codec = plan.scale * result.codec;
    out.computes = result.codec > Seconds(0);
    out.bytes_per_parameter = result.bytes_sent / static_cast<double>(plan.layout.numel);
    if (const Figure* blocks = find_figure(result.figures, "blocks_per_worker")) {
      const double all = two.workers * blocks->value();
      out.blocks_per_parameter = all / static_cast<double>(workload_.layout.numel);
    }
  };
  if (of.pace != Pace::lockstep) {
    try_out(kDriftingTrial);
    return out;
  }
  try_out(kFirstTrial);
  if (out.computes) try_out(kLockstepTrial);
  return out;
}

const Forecaster::Habits& Forecaster::habits_of(const Forecast& of) {
  if (const auto known = habits_.find(of.strategy); known != habits_.end()) return known->second;
  Habits& out = habits_[of.strategy];
  try {
    out = find_habits(of);
  } catch (const ConfigError&) {
    // As servers on three ranks: the rehearsal with all workers tells, or says why not.
  }
  return out;
}

// What the strategy computes may grow with the number of workers; what it takes at least was
// measured with more parameters. One that computes nothing has nothing to settle, either, such as
// what servers keep back.
void Forecaster::rehearse_lockstep(const Habits& habits, Forecast& out) const {
  const bool many = out.workers > kManyWorkers;
  const std::size_t numel = faithful_numel(habits, out.workers);
  Rehearsal plan = rehearsal(out, part_of(out, numel));
  plan.warmup = !habits.computes ? 0 : many ? 3 : 4;
  plan.counted = many ? 1 : 2;
  Rehearsed result = rehearse(plan);
  if (result.change > kSteady) {
    plan.counted = std::clamp(kChangingSteps / out.workers, kFewestChanging, kMostChanging);
    plan.warmup = plan.counted / 2;
    result = rehearse(plan);
  }
  out.codec = std::max(habits.codec, plan.scale * result.codec);
  conclude(plan, result, out);
  out.step += out.codec;
  check_blocks(plan, out);
  check_matrices(plan, out);
  check_headers(plan, habits, out);
}

// Their own computing goes on beside exchanges in the background, so it is part of the rehearsal.
void Forecaster::rehearse_drifting(Forecast& out) const {
  if (out.pace == Pace::free && out.workers > kMostFreeWorkers) {
    throw ConfigError(fmt::format(
        "workers at free pace are followed over many steps, up to {} of them", kMostFreeWorkers));
  }
  const Seconds computing = workload_.step_time + out.codec;
  const bool few_bits = sends_few_bits(out.strategy);
  Rehearsal plan;
  Rehearsed result;
  int settling = 0;
  for (int steps = drifting_steps(workload_, computing);;) {
    const auto moves = static_cast<std::size_t>(out.workers) * static_cast<std::size_t>(steps);
    plan = rehearsal(out, part_of(out, std::max(kLeastMoved, kQuickMoves / moves)));
    plan.computing = computing;
    plan.counted = steps;
    plan.warmup = std::max(steps / 3, settling);
    result = rehearse(plan);
    const bool seen = result.exchanges >= kExchangesToSee || steps >= kMostSteps;
    const bool settled = !few_bits || result.coded || plan.warmup >= kMostSteps;
    if (seen && settled) break;
    if (!seen) steps = std::min(kMostSteps, 4 * steps);
    if (settled) continue;
    const Figure* const rate = find_figure(result.figures, "messages_per_worker_step");
    const double learning = kLettersToLearn / std::max(rate->value(), 1e-9);
    settling = static_cast<int>(
        std::clamp<double>(learning, 2 * plan.warmup, static_cast<double>(kMostSteps)));
  }
  if (result.exchanges < kFewestExchanges) {
    throw ConfigError(
        fmt::format("in {} steps a worker told the others about its model {} times: "
                    "too rarely to say what a step sends",
                    plan.counted, result.exchanges));
  }
  conclude(plan, result, out);
  if (few_bits && !result.coded) {
    out.notes.push_back(fmt::format(
        "after {} steps not all workers had got the 16 whole letters after which they are in few "
        "bits: later, less is sent",
        plan.warmup));
  }
}

void Forecaster::conclude(const Rehearsal& plan, const Rehearsed& result, Forecast& out) const {
  out.step = result.step;
  out.scale = plan.scale;
  const auto of_all = [&](double bytes) {
    return plan.scale * (bytes - result.news_bytes) + result.news_bytes;
  };
  out.bytes_per_worker_step = of_all(result.bytes_sent);
  out.wire_bound =
      workload_.network.transfer_time(static_cast<std::size_t>(of_all(result.busiest_bytes)));
  out.figures = result.figures;
  out.notes = result.warnings;
  // Bytes that strategies report are weighed; what a server computes was that of the part.
  const auto served = std::ranges::find(out.figures, "server_seconds", &Figure::name);
  if (served != out.figures.end()) served->amount *= plan.scale;
}

void Forecaster::check_blocks(const Rehearsal& plan, const Forecast& out) const {
  const Figure* const figure = find_figure(out.figures, "blocks_per_worker");
  if (figure == nullptr || figure->value() == 0 || plan.scale == 1) return;
  const double blocks = figure->value() / plan.scale;
  const double ratio = unevenness(blocks) / unevenness(figure->value());
  if (ratio <= kMostUneven) return;
  throw ConfigError(fmt::format(
      "its values are dealt out in blocks of 256, {:.3g} for each worker; in the part of the model "
      "that can be simulated only {:.3g}, which would look {:.1f} times as slow",
      figure->value(), blocks, ratio));
}

void Forecaster::check_matrices(const Rehearsal& plan, Forecast& out) const {
  if (!sends_sides(out.strategy) || plan.scale == 1) return;
  const double ratio = sides_per_parameter(plan.layout) / sides_per_parameter(workload_.layout);
  if (ratio <= kMoreSides) return;
  out.notes.push_back(fmt::format(
      "its matrices were cut down to {} x {} to be simulated: it sends up to {:.1f} times less",
      plan.layout.tensors[0].shape[0], plan.layout.tensors[0].shape[1], ratio));
}

void Forecaster::check_headers(const Rehearsal& plan, const Habits& habits, Forecast& out) const {
  const double bytes = habits.bytes_per_parameter * static_cast<double>(plan.layout.numel);
  if (plan.scale == 1 || bytes == 0 || bytes >= kFewBytes) return;
  out.notes.push_back(fmt::format(
      "messages of the part that was simulated are so short ({:.0f} bytes) that their headers "
      "count, and are multiplied: it sends less",
      bytes));
}

Forecast Forecaster::forecast(const std::string& strategy, int workers) {
  Forecast out;
  out.strategy = strategy;
  const auto made = make_strategy(strategy);
  out.pace = made->pace();
  out.workers = workers;
  out.step = workload_.step_time;
  if (workers == 1) return out;  // nobody to exchange with

  const Habits& habits = habits_of(out);
  if (out.pace == Pace::lockstep) {
    rehearse_lockstep(habits, out);
  } else {
    out.codec = habits.codec;
    rehearse_drifting(out);
  }
  const double training = workers - made->first_worker(workers);
  out.efficiency = training / workers * (workload_.step_time / out.step);
  return out;
}

}  // namespace thinwire::cli
