#include "cli/train_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/duration.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/readable.h"
#include "cli/flag_values.h"

namespace thinwire::cli {
namespace {

constexpr std::uint64_t kMostSteps = 1'000'000'000'000;

trainer::Straggler parse_straggler(std::string_view text, int workers) {
  const auto colon = std::min(text.find(':'), text.size());
  const auto rank = base::parse_number<int>(text.substr(0, colon));
  const auto factor = base::parse_number<double>(text.substr(std::min(colon + 1, text.size())));
  if (!rank || !factor || *rank < 0 || *rank >= workers || !(*factor >= 1 && *factor <= 1e6)) {
    throw ConfigError(
        fmt::format("--slow {}: not RANK:FACTOR with a rank of 0 ... {} and a factor of at least "
                    "1; example: 1:3",
                    text, workers - 1));
  }
  return {*rank, *factor};
}

void require(bool holds, std::string_view text) {
  if (!holds) throw ConfigError(std::string(text));
}

}  // namespace

void complete(TrainFlags& flags, const launch::Group& group, const trainer::DataPair& data) {
  trainer::TrainOptions& options = flags.options;
  const int workers = group.join.size;
  require(options.learning_rate > 0, "--lr 0: it must be more than 0");
  require(flags.momentum >= 0 && flags.momentum < 1, "--momentum 1: it must be less than 1");
  require(flags.nonfinite == "skip" || flags.nonfinite == "stop",
          fmt::format("--nonfinite {}: it must be skip or stop", flags.nonfinite));
  options.sgd.momentum = static_cast<float>(flags.momentum);
  options.sgd.weight_decay = static_cast<float>(flags.weight_decay);
  options.session.nonfinite = flags.nonfinite == "stop" ? NonFinite::stop : NonFinite::skip;
  options.step_time = Seconds(flags.step_time);
  for (const std::string& text : flags.slow) options.slow.push_back(parse_straggler(text, workers));

  const int lengths =
      (flags.length.epochs > 0) + (flags.length.steps > 0) + (flags.length.samples > 0);
  require(lengths <= 1,
          "length of the run: only one of --epochs, --steps and --samples may be given");
  if (lengths == 0) flags.length.epochs = 3;
  options.steps = total_steps(flags.length, data.train->size(), options.batch,
                              trainer::training_workers(options.session.strategy, workers));
}

// A run takes at least this: parameters, gradients, velocity and the state of a strategy. The
// activations that layers keep for their gradients come on top.
void check_memory(std::size_t parameters, const launch::Group& group) {
  constexpr std::uint64_t kBuffers = 5;
  const std::uint64_t needed = std::uint64_t{parameters} * sizeof(float) * kBuffers *
                               static_cast<std::uint64_t>(group.workers_to_fit);
  const std::optional<std::uint64_t> room = base::available_memory();
  if (!room || needed <= *room) return;
  throw ConfigError(fmt::format(
      "--workers {}: too many for the memory of this machine ({} models of {} parameters need at "
      "least {}, {} available); use fewer workers or a smaller --model",
      group.join.size, group.workers_to_fit, parameters, base::gibibytes(needed),
      base::gibibytes(*room)));
}

void add_training_flags(CLI::App& command, TrainFlags& flags) {
  trainer::TrainOptions& options = flags.options;
  command
      .add_option("--model", options.model, "name of a model (lenet); see `thinwire list models`")
      ->type_name("M");
  command
      .add_option("--data", options.data, "name of a data set (digits); see `thinwire list data`")
      ->type_name("D");
  command.add_option("--epochs", flags.length.epochs, "length of the run in epochs (3)")
      ->type_name("N")
      ->check(number(1e-6, 1e6));
  command.add_option("--steps", flags.length.steps, "... or in steps")
      ->type_name("N")
      ->check(whole_number(1, kMostSteps));
  command
      .add_option("--samples", flags.length.samples, "... or in examples, counted over all workers")
      ->type_name("N")
      ->check(whole_number(1, kMostSteps));
  command.add_option("--batch", options.batch, "examples per worker and step (32)")
      ->type_name("B")
      ->check(whole_number(1, 1 << 24));
  command.add_option("--lr", options.learning_rate, "learning rate (0.02)")
      ->type_name("LR")
      ->check(number(0, 1e6));
  command.add_option("--momentum", flags.momentum, "momentum (0.9)")
      ->type_name("M")
      ->check(number(0, 1));
  command.add_flag("--nesterov", options.sgd.nesterov, "Nesterov's form of momentum");
  command.add_option("--weight-decay", flags.weight_decay, "weight decay (0)")
      ->type_name("W")
      ->check(number(0, 1e6));
  command
      .add_option("--lr-schedule", options.lr_schedule,
                  "constant, step:every=E,factor=F or cosine, each with warmup=E (epochs) and "
                  "scale=linear (constant)")
      ->type_name("SPEC");
  command.add_option("--seed", options.seed, "seed of everything random (1)")
      ->type_name("S")
      ->check(whole_number(0, UINT64_MAX));
}

void add_run_flags(CLI::App& command, TrainFlags& flags) {
  trainer::TrainOptions& options = flags.options;
  command
      .add_option("--save-every", options.save_every, "steps between checkpoints (only at the end)")
      ->type_name("N")
      ->check(whole_number(0, kMostSteps));
  command.add_option("--keep", options.keep, "checkpoints to keep (3)")
      ->type_name("N")
      ->check(whole_number(0, kMostSteps));
  command.add_option("--eval-every", options.eval_every, "steps between tests (only at the end)")
      ->type_name("N")
      ->check(whole_number(0, kMostSteps));
  command
      .add_option("--check-every", options.session.check_every,
                  "steps between comparisons of the replicas (only at the end)")
      ->type_name("N")
      ->check(whole_number(0, kMostSteps));
  command
      .add_option("--nonfinite", flags.nonfinite,
                  "action for steps with gradients that are not finite: skip or stop (skip)")
      ->type_name("WORD");
  command.add_option("--slow", flags.slow, "a worker whose computing takes FACTOR times as long")
      ->type_name("RANK:FACTOR");
  command
      .add_option("--step-time", flags.step_time,
                  "time to compute a step, such as 50ms, for sim (as measured)")
      ->type_name("T")
      ->transform([](const std::string& text) {
        return fmt::format("{}", base::parse_duration("--step-time", text).count());
      });
}

}  // namespace thinwire::cli
