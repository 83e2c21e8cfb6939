// thinwire train: trains a network on several workers.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/writable.h"
#include "cli/command.h"
#include "cli/group_flags.h"
#include "cli/help.h"
#include "cli/train_events.h"
#include "cli/train_flags.h"
#include "cli/train_report.h"
#include "launch/launcher.h"

namespace thinwire::cli {
namespace {

constexpr std::string_view kExamples = R"(Examples:
  thinwire train --model lenet --data digits                    4 local workers, built-in data
  thinwire train --model resnet20 --data cifar10:DIR --workers 2 --epochs 6 --out runs/a
  thinwire train --model resnet20 --data cifar10:DIR --workers 2 --epochs 6 --out runs/a --resume
  thinwire train --network 100mbit,1ms --slow 1:3               a slow network, a slow worker
  thinwire train --transport sim --workers 16 --network 1gbit,0.1ms --step-time 0.05
  torchrun --nnodes 2 ... --no_python thinwire train            one rank of many)";

void check_directory(const trainer::TrainOptions& options) {
  if (!options.out.empty()) return;
  if (options.resume)
    throw ConfigError("--resume: --out DIR is needed, too; the run goes on there");
  if (options.save_every > 0) throw ConfigError("--save-every: --out DIR is needed, too");
}

void make_directory(const trainer::TrainOptions& options) {
  if (options.out.empty()) return;
  try {
    base::make_writable_directory(options.out);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("--out {}", error.what()));
  }
}

// Opens the event stream of this process. Our launcher has made a new file for its workers.
TrainEvents open_events(const TrainFlags& flags, const launch::Group& group, const launch::Io& io) {
  using Open = observe::EventWriter::Open;
  const bool one_rank = group.start == launch::Group::Start::by_others;
  const bool first = !one_rank || group.join.rank == 0;
  return {flags.events, first && !io.env(launch::kLauncherVariable) ? Open::fresh : Open::append,
          one_rank ? std::optional(group.join.rank) : std::nullopt};
}

// Runs the ranks of this process. Returns the exit code.
int run_ranks(const TrainFlags& flags, const launch::Group& group, const trainer::DataPair& data,
              TrainEvents& events, Invocation& invocation) {
  launch::Io& io = invocation.io;
  const TrainSetting setting{flags.options, group.transport, flags.group.network, group.join.size,
                             group.transport == "sim"};
  std::optional<TrainReport> report;
  if (group.start == launch::Group::Start::in_process || group.join.rank == 0) {
    report.emplace(io, setting, events);
    events.start(setting);
  }
  const trainer::Observer silent, observer = report ? report->observer() : silent;
  bool identical = true;
  const int code = launch::run_group(group, invocation.arguments, io, [&](Transport& wire) {
    if (wire.rank() == 0) events.joined(wire.hosts());
    const trainer::TrainResult result =
        trainer::train(wire, flags.options, data, wire.rank() == 0 ? observer : silent);
    if (wire.rank() != 0) return;
    report->finish(result, flags.quiet  ? Summary::none
                           : flags.json ? Summary::json
                                        : Summary::text);
    identical = result.replicas_identical;
  });
  if (!identical)
    throw Error("train: the replicas differ at the end; this is a bug, please report it");
  return code;
}

int train(TrainFlags flags, Invocation& invocation) {
  launch::Io& io = invocation.io;
  check_directory(flags.options);
  launch::Group group = launch::choose_group(flags.group, io.env);
  const trainer::DataPair data = trainer::load_data(flags.options.data, flags.options.seed);
  complete(flags, group, data);
  const std::size_t parameters = check(flags.options, data);
  check_memory(parameters, group);
  make_directory(flags.options);
  TrainEvents events = open_events(flags, group, io);
  try {
    if (flags.options.resume) {
      check_resume(flags.options, parameters, group.join.rank, group.join.size);
    }
    if (group.start == launch::Group::Start::by_us)
      return launch::run_group(group, invocation.arguments, io, {},
                               [&](const launch::RunFailure& failure) { events.exit(failure); });
    const LogSink log = [&](LogLevel level, std::string_view text) {
      if (level == LogLevel::info) {
        events.note(text);
        launch::print_note(io, text);
      } else if (level > LogLevel::info) {
        events.warning(text);
        launch::print_warning(io, text);
      }
    };
    flags.options.session.log = group.join.log = log;
    return run_ranks(flags, group, data, events, invocation);
  } catch (const std::exception& error) {
    events.error(error);
    throw;
  }
}

}  // namespace

void add_train(CLI::App& root, Invocation& invocation) {
  CLI::App* command = add_command(root, "train", "Trains a network on several workers.", kExamples);
  auto flags = std::make_shared<TrainFlags>();
  trainer::TrainOptions& options = flags->options;
  command
      ->add_option("--strategy", options.session.strategy,
                   "how workers communicate (dense); see `thinwire list strategies`")
      ->type_name("SPEC");
  add_training_flags(*command, *flags);
  command->add_option("--out", options.out, "directory for run.jsonl, summary.json, checkpoints")
      ->type_name("DIR");
  command->add_flag("--resume", options.resume, "go on from the newest whole checkpoint in --out");
  add_run_flags(*command, *flags);
  add_group_flags(*command, flags->group);
  command
      ->add_option("--events", flags->events,
                   "file for the events of the run, a JSON object per line (docs/events.md)")
      ->type_name("FILE");
  command->add_flag("--json", flags->json, "one JSON object instead of the summary");
  command->add_flag("--quiet", flags->quiet, "no summary; --out has it in summary.json");
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return train(*flags, invocation); };
  });
}

}  // namespace thinwire::cli
