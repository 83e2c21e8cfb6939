// thinwire train: a network learns on several workers.
#include <CLI/CLI.hpp>

#include "base/writable.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/train_flags.h"
#include "cli/train_report.h"

namespace thinwire::cli {
namespace {

constexpr std::string_view kExamples = R"(Examples:
  thinwire train --model lenet --data digits                    4 local workers, built-in data
  thinwire train --model resnet20 --data cifar10:DIR --workers 2 --epochs 6 --out runs/a
  thinwire train --model resnet20 --data cifar10:DIR --workers 2 --epochs 6 --out runs/a --resume
  thinwire train --network 100mbit,1ms --slow 1:3               a thin wire, a slow worker
  thinwire train --transport sim --workers 16 --network 1gbit,0.1ms --step-time 0.05
  torchrun --nnodes 2 ... --no-python thinwire train            one rank of many)";

void check_directory(const trainer::TrainOptions& options) {
  if (!options.out.empty()) return;
  if (options.resume) throw ConfigError("--resume needs --out DIR, where to go on");
  if (options.save_every > 0) throw ConfigError("--save-every needs --out DIR");
}

int train(TrainFlags flags, Invocation& invocation) {
  launch::Io& io = invocation.io;
  check_directory(flags.options);
  const Group group = plan_group(flags.group, io.env);
  const trainer::DataPair data = trainer::load_data(flags.options.data, flags.options.seed);
  complete(flags, group, data);
  const std::size_t parameters = check(flags.options, data);
  check_memory(parameters, group);
  if (!flags.options.out.empty()) base::make_writable_directory(flags.options.out);
  if (flags.options.resume) {
    check_resume(flags.options, parameters, group.join.rank, group.join.size);
  }

  if (group.start == Group::Start::by_us) return run_group(group, invocation, {});
  flags.options.session.log = [&io](LogLevel, std::string_view text) {
    launch::print_warning(io, text);
  };
  const TrainSetting setting{flags.options, group.engine, flags.group.network, group.join.size,
                             group.engine == "sim"};
  std::optional<TrainReport> report;
  if (group.start == Group::Start::in_process || group.join.rank == 0) report.emplace(io, setting);
  const trainer::Observer silent, observer = report ? report->observer() : silent;
  bool identical = true;
  const int code = run_group(group, invocation, [&](Transport& wire) {
    const trainer::TrainResult result =
        trainer::train(wire, flags.options, data, wire.rank() == 0 ? observer : silent);
    if (wire.rank() != 0) return;
    report->finish(result, flags.quiet  ? Summary::none
                           : flags.json ? Summary::json
                                        : Summary::text);
    identical = result.replicas_identical;
  });
  if (!identical) throw Error("the replicas differ at the end: this is a bug, please report it");
  return code;
}

}  // namespace

void add_train(CLI::App& root, Invocation& invocation) {
  CLI::App* command = root.add_subcommand("train", "A network learns on several workers.");
  show_examples_first(*command, kExamples);
  auto flags = std::make_shared<TrainFlags>();
  trainer::TrainOptions& options = flags->options;
  command->add_option("--strategy", options.session.strategy, "how workers communicate (dense)")
      ->type_name("SPEC");
  add_training_flags(*command, *flags);
  command->add_option("--out", options.out, "directory for run.jsonl, summary.json, checkpoints")
      ->type_name("DIR");
  command->add_flag("--resume", options.resume, "go on from the newest whole checkpoint in --out");
  add_run_flags(*command, *flags);
  add_group_flags(*command, flags->group);
  command->add_flag("--json", flags->json, "one JSON object instead of the summary");
  command->add_flag("--quiet", flags->quiet, "no summary; --out has it in summary.json");
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return train(*flags, invocation); };
  });
}

}  // namespace thinwire::cli
