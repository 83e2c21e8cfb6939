// thinwire bench: what an exchange costs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/memory.h"
#include "base/readable.h"
#include "bench/measure/allreduce_bench.h"
#include "cli/allreduce_report.h"
#include "cli/bench_limits.h"
#include "cli/bench_select.h"
#include "cli/command.h"
#include "cli/group.h"
#include "cli/help.h"
#include "cli/numel.h"
#include "cli/ranges.h"
#include "thinwire/strategy.h"

namespace thinwire::cli {
namespace {

constexpr std::string_view kBenchExamples = R"(Examples:
  thinwire bench allreduce                                      exchanges of 4 local workers
  thinwire bench select                                         what it costs to find the largest)";

constexpr std::string_view kAllreduceExamples = R"(Examples:
  thinwire bench allreduce                                      a sweep of sizes, 4 local workers
  thinwire bench allreduce --numel 1000,25M --network 1gbit,0.2ms
  thinwire bench allreduce --workers 256 --transport sim --network 10gbit,50us --numel 100k
  mpirun -n 4 thinwire bench allreduce --numel 25M --json)";

constexpr std::size_t kSweep[] = {1'000, 10'000, 100'000, 1'000'000, 10'000'000, 25'000'000};

struct AllreduceFlags {
  measure::AllreduceBenchOptions plan;
  std::string numel;
  GroupFlags group;
  bool json = false;
};

// The sizes to run. Of a sweep, those that fit into memory; sizes that the user chose must fit.
std::vector<std::size_t> choose_sizes(const AllreduceFlags& flags, const Group& group,
                                      launch::Io& io) {
  const bool sweep = flags.numel.empty();
  std::vector<std::size_t> sizes(std::begin(kSweep), std::end(kSweep));
  if (!sweep) sizes = parse_numels(flags.numel);
  const std::optional<std::uint64_t> room = base::available_memory();
  if (!room) return sizes;
  const auto needed = [&](std::size_t numel) {
    return std::uint64_t{numel} * sizeof(float) * measure::kBuffersPerWorker *
           static_cast<std::uint64_t>(group.workers_to_fit);
  };
  std::erase_if(sizes, [&](std::size_t numel) {
    if (needed(numel) <= *room) return false;
    const std::string text = fmt::format(
        "{} floats on {} workers of this machine need {}, but only {} are available", numel,
        group.workers_to_fit, base::gibibytes(needed(numel)), base::gibibytes(*room));
    if (!sweep) throw ConfigError("--numel: " + text);
    io.err << "left out: " << text << '\n';
    return true;
  });
  if (sizes.empty())
    throw ConfigError(
        "bench allreduce: no size of the sweep fits into memory; give --numel, or fewer workers");
  return sizes;
}

void check(const measure::AllreduceBenchOptions& plan) {
  if (sync_mode_of(*make_strategy(plan.strategy)) != SyncMode::synchronous) {
    throw ConfigError(
        fmt::format("--strategy {}: it exchanges models now and then, not gradients "
                    "in each step; see thinwire train",
                    plan.strategy));
  }
  check_repetitions(plan.reps, plan.warmup);
}

int bench_allreduce(AllreduceFlags flags, Invocation& invocation) {
  launch::Io& io = invocation.io;
  measure::AllreduceBenchOptions& plan = flags.plan;
  check(plan);
  const Group group = plan_group(flags.group, io.env);
  plan.network = group.join.network;
  plan.numels = choose_sizes(flags, group, io);

  AllreduceReport report(io, plan, group.engine, flags.json);
  bool identical = true;
  const int code = run_group(group, invocation, [&](Transport& wire) {
    if (wire.rank() != 0) {
      for (const std::size_t numel : plan.numels)
        measure::measure_allreduce(wire, plan, numel, [](int) {});
      return;
    }
    launch::Progress progress(io);
    for (const std::size_t numel : plan.numels) {
      progress.stage(fmt::format("{}: {} floats, {} workers over {}", plan.strategy, numel,
                                 wire.size(), group.engine));
      const measure::AllreduceResult result =
          measure::measure_allreduce(wire, plan, numel, [&](int rep) {
            progress.detail(fmt::format("{} floats: exchange {} of {}", numel, rep + 1,
                                        plan.warmup + plan.reps));
          });
      progress.clear();
      report.add(result);
      identical = identical && result.replicas_identical;
    }
  });
  if (!identical) throw Error("bench allreduce: the replicas differ (ranks got different results)");
  return code;
}

void add_bench_allreduce(CLI::App& bench, Invocation& invocation) {
  CLI::App* command = bench.add_subcommand(
      "allreduce",
      "Measures one exchange of a strategy on synthetic gradients: time, bytes, wire bound.");
  show_examples_first(*command, kAllreduceExamples);

  auto flags = std::make_shared<AllreduceFlags>();
  flags->plan.strategy = "dense";
  command
      ->add_option("--strategy", flags->plan.strategy,
                   "name or name:key=value,... (dense); see `thinwire list strategies`")
      ->type_name("SPEC");
  command->add_option("--numel", flags->numel, "floats per gradient, a list (a sweep, 1k ... 25M)")
      ->type_name("N,...");
  command->add_option("--reps", flags->plan.reps, "repetitions that count (5)")->type_name("R");
  command->add_option("--warmup", flags->plan.warmup, "repetitions before them (1)")
      ->type_name("W");
  command->add_option("--seed", flags->plan.seed, "seed of the gradients (1)")
      ->type_name("S")
      ->check(whole_number(0, UINT64_MAX));
  add_group_flags(*command, flags->group);
  command->add_flag("--json", flags->json, "a JSON line per size instead of the table");
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return bench_allreduce(*flags, invocation); };
  });
}

}  // namespace

void add_bench(CLI::App& root, Invocation& invocation) {
  CLI::App* bench = root.add_subcommand("bench", "Measures the cost of an exchange.");
  show_examples_first(*bench, kBenchExamples);
  add_bench_allreduce(*bench, invocation);
  add_bench_select(*bench, invocation);
}

}  // namespace thinwire::cli
