#include "thinwire/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "base/hash.h"
#include "thinwire/collective.h"

namespace thinwire {
namespace {

// Nothing recovers from so many steps that were skipped one after the other.
constexpr std::uint64_t kMostSkippedInARow = 100;

// The hash of each tensor and, at the end, that of all of them.
std::vector<std::uint64_t> tensor_hashes(const ModelView& model) {
  std::vector<std::uint64_t> hashes;
  const auto& tensors = model.layout.tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t end = i + 1 < tensors.size() ? tensors[i + 1].offset : model.layout.numel;
    hashes.push_back(base::hash64(
        std::as_bytes(model.params.subspan(tensors[i].offset, end - tensors[i].offset))));
  }
  return hashes;
}

// Of all that ranks send each other without a version of its own: dense and quantized vectors, the
// news of rounds, and in which order. To be raised when docs/wire-format.md or a collective
// changes.
constexpr int kWireVersion = 3;

// What a rank says about itself before the first step.
struct Start {
  std::uint64_t options;  // a hash
  std::uint64_t step;     // 0 where each worker counts its own
};

// Ranks with other options would average what does not belong together, or wait for messages that
// nobody sends. So would ranks that begin at different steps: most messages do not say theirs.
void check_agreement(Transport& wire, const SessionOptions& options, std::size_t numel,
                     std::uint64_t step) {
  const RunOptions& run = options.run;
  const std::string plan =
      fmt::format("{} {} {} {} {} {} {} {} {}", kWireVersion, options.strategy, numel, run.seed,
                  run.steps, run.samples, run.sgd.momentum, run.sgd.weight_decay, run.sgd.nesterov);
  const Start mine{base::hash64(std::as_bytes(std::span(plan))), step};
  std::vector<Start> all(static_cast<std::size_t>(wire.size()));
  allgather(wire, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  std::vector<int> others;
  std::vector<std::string> elsewhere;
  for (int rank = 1; rank < wire.size(); ++rank) {
    const Start& theirs = all[static_cast<std::size_t>(rank)];
    if (theirs.options != all[0].options) others.push_back(rank);
    if (theirs.step != all[0].step) {
      elsewhere.push_back(fmt::format("rank {} at step {}", rank, theirs.step));
    }
  }
  if (!others.empty()) {
    throw ConfigError(fmt::format(
        "rank {}: ranks {} run with other options than rank 0 (strategy, model, seed, "
        "momentum, weight "
        "decay or length of the run), or another version of thinwire. Start all ranks with "
        "the same program and command line.",
        wire.rank(), fmt::join(others, ", ")));
  }
  if (elsewhere.empty()) return;
  throw ConfigError(
      fmt::format("rank {}: rank 0 begins at step {}, but {}. All ranks must begin, or resume, at "
                  "the same step.",
                  wire.rank(), all[0].step, fmt::join(elsewhere, ", ")));
}

}  // namespace

Session::Session(Transport& wire, const SessionOptions& options)
    : wire_(wire), options_(options), strategy_(make_strategy(options.strategy)) {}

void Session::begin(ModelView model, std::uint64_t step) {
  step_ = step;
  check_agreement(wire_, options_, model.layout.numel,
                  sync_mode() == SyncMode::asynchronous ? 0 : step);
  if (!resumed_ || sync_mode() == SyncMode::synchronous) {
    broadcast(wire_, std::as_writable_bytes(model.params));
  }
  StepContext now = context(model);
  strategy_->begin(now);
}

bool Session::after_backward(ModelView model) {
  StepContext now = context(model);
  strategy_->after_backward(now);
  if (!now.skip) {
    skipped_in_a_row_ = 0;
    return true;
  }
  ++stats_.skipped_steps;
  const std::string text = fmt::format(
      "a gradient of step {} is not finite; a smaller learning rate or a warm-up may help", step_);
  if (options_.nonfinite == NonFinite::stop) throw Error(text + " (--nonfinite stop)");
  if (++skipped_in_a_row_ == kMostSkippedInARow) {
    throw Error(
        fmt::format("rank {}: the gradients of {} steps in a row, up to step {}, are not finite: "
                    "the model itself is lost. Start again with a smaller learning rate or a "
                    "warm-up, or from a checkpoint before.",
                    wire_.rank(), kMostSkippedInARow, step_));
  }
  warn_skipped(text);
  return false;
}

// Where one is not finite, hundreds often follow: the 1st, 2nd, 4th, 8th, ... are told.
void Session::warn_skipped(const std::string& why) const {
  const bool everywhere = sync_mode() == SyncMode::synchronous;
  if (!options_.log || (everywhere && wire_.rank() != 0)) return;
  if (!std::has_single_bit(stats_.skipped_steps)) return;
  options_.log(LogLevel::warning,
               fmt::format("{}; the step is skipped on {} ({} so far)", why,
                           everywhere ? "all ranks" : fmt::format("rank {}", wire_.rank()),
                           stats_.skipped_steps));
}

void Session::after_step(ModelView model, const StepTaken& taken) {
  StepContext now = context(model);
  now.samples = taken.samples;
  now.learning_rate = taken.learning_rate;
  strategy_->after_step(now);
  ++step_;
  ++stats_.steps;
  const bool due = options_.check_every > 0 && step_ % options_.check_every == 0;
  if (due && sync_mode() == SyncMode::synchronous) check_replicas(model);
}

void Session::end(ModelView model) {
  StepContext now = context(model);
  strategy_->end(now);
}

void Session::quiesce(ModelView model) {
  StepContext now = context(model);
  strategy_->quiesce(now);
}

void Session::load(Bytes in) {
  strategy_->load(in);
  resumed_ = true;
}

std::vector<Metric> Session::metrics() {
  std::vector<Metric> metrics = strategy_->metrics();
  sum_metrics(wire_, metrics);
  return metrics;
}

bool Session::replicas_identical(ModelView model) {
  std::uint64_t bounds[2];
  bounds[0] = base::hash64(std::as_bytes(model.params));
  bounds[1] = ~bounds[0];
  allreduce_max(wire_, std::span(bounds));
  return bounds[0] == ~bounds[1];
}

void Session::check_replicas(ModelView model) {
  if (replicas_identical(model)) return;
  const std::vector<std::uint64_t> mine = tensor_hashes(model);
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(wire_.size()));
  allgather(wire_, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  for (std::size_t tensor = 0; tensor < mine.size(); ++tensor) {
    std::vector<int> others;
    for (int rank = 1; rank < wire_.size(); ++rank) {
      const auto row = static_cast<std::size_t>(rank) * mine.size();
      if (all[row + tensor] != all[tensor]) others.push_back(rank);
    }
    if (others.empty()) continue;
    throw Error(fmt::format(
        "the replicas differ after step {}: tensor '{}' of rank {} is not that of rank 0. Either "
        "their machines compute differently (compiler, CPU, libraries), or this is a bug.",
        step_, model.layout.tensors[tensor].name, fmt::join(others, ", ")));
  }
}

}  // namespace thinwire
