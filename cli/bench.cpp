// thinwire bench: the cost of an exchange, and of the selection of the entries to send.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/memory.h"
#include "base/readable.h"
#include "bench/measure/allreduce_report.h"
#include "bench/measure/select_report.h"
#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/group_flags.h"
#include "cli/help.h"
#include "thinwire/error.h"
#include "thinwire/strategy.h"

namespace thinwire::cli {
namespace {

constexpr std::string_view kBenchExamples = R"(Examples:
  thinwire bench allreduce                                      exchanges of 4 local workers
  thinwire bench select                                         the cost of selecting the largest entries)";

constexpr std::string_view kAllreduceExamples = R"(Examples:
  thinwire bench allreduce                                      a sweep of sizes, 4 local workers
  thinwire bench allreduce --numel 1000,25M --network 1gbit,0.2ms
  thinwire bench allreduce --workers 256 --transport sim --network 10gbit,50us --numel 100k
  mpirun -n 4 thinwire bench allreduce --numel 25M --json)";

constexpr std::size_t kSweep[] = {1'000, 10'000, 100'000, 1'000'000, 10'000'000, 25'000'000};

constexpr std::string_view kSelectExamples = R"(Examples:
  thinwire bench select                            1 of 1000 of 25 million floats
  thinwire bench select --numel 1M --density 0.01
  thinwire bench select --json)";

void check_repetitions(int reps, int warmup) {
  if (reps < 1) throw ConfigError(fmt::format("--reps {}: at least 1 is needed", reps));
  if (warmup < 0) throw ConfigError(fmt::format("--warmup {}: at least 0 is needed", warmup));
}

// Prints a result as soon as it is known: a row of a table for people, or JSON for scripts.
template <class Report, class Result>
void print_result(launch::Io& io, const Report& report, const Result& result, bool json,
                  bool first) {
  if (first && !json) {
    io.out << launch::bold(io, report.title()) << '\n' << report.columns() << '\n';
  }
  io.out << (json ? report.json(result) : report.row(result)) << '\n' << std::flush;
}

// --- bench allreduce

struct AllreduceFlags {
  measure::AllreduceBenchOptions options;
  std::string numel;
  launch::GroupOptions group;
  bool json = false;
};

// Returns the sizes to run. A sweep leaves out sizes that do not fit into memory; a size that the
// user chose must fit.
std::vector<std::size_t> choose_sizes(const AllreduceFlags& flags, const launch::Group& group,
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

void check(const measure::AllreduceBenchOptions& options) {
  if (sync_mode_of(*make_strategy(options.strategy)) != SyncMode::synchronous) {
    throw ConfigError(
        fmt::format("--strategy {}: it exchanges models now and then, not gradients "
                    "in each step; see thinwire train",
                    options.strategy));
  }
  check_repetitions(options.reps, options.warmup);
}

// Runs on rank 0 and prints. Returns whether all replicas were identical.
bool measure_and_print(Transport& wire, const measure::AllreduceBenchOptions& options,
                       const std::string& transport, bool json, launch::Io& io) {
  const measure::AllreduceReport report(options, transport, wire.size());
  launch::Progress progress(io);
  bool identical = true, first = true;
  for (const std::size_t numel : options.numels) {
    progress.stage(fmt::format("{}: {} floats, {} workers over {}", options.strategy, numel,
                               wire.size(), transport));
    const measure::AllreduceResult result =
        measure::measure_allreduce(wire, options, numel, [&](int rep) {
          progress.detail(fmt::format("{} floats: exchange {} of {}", numel, rep + 1,
                                      options.warmup + options.reps));
        });
    progress.clear();
    print_result(io, report, result, json, first);
    first = false;
    identical = identical && result.replicas_identical;
  }
  return identical;
}

int bench_allreduce(AllreduceFlags flags, Invocation& invocation) {
  launch::Io& io = invocation.io;
  measure::AllreduceBenchOptions& options = flags.options;
  check(options);
  const launch::Group group = launch::choose_group(flags.group, io.env);
  options.network = group.join.network;
  options.numels = choose_sizes(flags, group, io);

  bool identical = true;
  const int code = launch::run_group(group, invocation.arguments, io, [&](Transport& wire) {
    if (wire.rank() == 0) {
      identical = measure_and_print(wire, options, group.transport, flags.json, io);
      return;
    }
    for (const std::size_t numel : options.numels)
      measure::measure_allreduce(wire, options, numel, [](int) {});
  });
  if (!identical) throw Error("bench allreduce: the replicas differ (ranks got different results)");
  return code;
}

void add_bench_allreduce(CLI::App& bench, Invocation& invocation) {
  CLI::App* command = add_command(
      bench, "allreduce",
      "Measures one exchange of a strategy on synthetic gradients: time, bytes, wire bound.",
      kAllreduceExamples);

  auto flags = std::make_shared<AllreduceFlags>();
  flags->options.strategy = "dense";
  command
      ->add_option("--strategy", flags->options.strategy,
                   "name or name:key=value,... (dense); see `thinwire list strategies`")
      ->type_name("SPEC");
  command->add_option("--numel", flags->numel, "floats per gradient, a list (a sweep, 1k ... 25M)")
      ->type_name("N,...");
  command->add_option("--reps", flags->options.reps, "repetitions that count (5)")->type_name("R");
  command->add_option("--warmup", flags->options.warmup, "repetitions before them (1)")
      ->type_name("W");
  command->add_option("--seed", flags->options.seed, "seed of the gradients (1)")
      ->type_name("S")
      ->check(whole_number(0, UINT64_MAX));
  add_group_flags(*command, flags->group);
  command->add_flag("--json", flags->json, "a JSON line per size instead of the table");
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return bench_allreduce(*flags, invocation); };
  });
}

// --- bench select

struct SelectFlags {
  measure::SelectBenchOptions options;
  std::string numel = "25M";
  bool json = false;
};

// Throws ConfigError if 32-bit indices cannot count the floats, or the buffers do not fit in
// memory.
void check_floats(std::size_t numel, std::size_t buffers) {
  if (numel > std::size_t{1} << 32) {
    throw ConfigError(fmt::format("--numel {}: at most 2^32 floats are possible", numel));
  }
  const std::uint64_t needed = numel * sizeof(float) * buffers;
  const std::optional<std::uint64_t> room = base::available_memory();
  if (room && needed > *room) {
    throw ConfigError(fmt::format("--numel: {} floats need {}, but only {} is available", numel,
                                  base::gibibytes(needed), base::gibibytes(*room)));
  }
}

void check(const measure::SelectBenchOptions& options) {
  check_repetitions(options.reps, options.warmup);
  if (!(options.density > 0 && options.density <= 1)) {
    throw ConfigError(
        fmt::format("--density {}: it must be more than 0 and at most 1", options.density));
  }
  check_floats(options.numel, measure::kSelectBuffers);
}

int bench_select(SelectFlags flags, launch::Io& io) {
  measure::SelectBenchOptions& options = flags.options;
  options.numel = parse_numel(flags.numel);
  check(options);
  const measure::SelectReport report(options);
  bool exact = true, first = true;
  for (const measure::SelectKernel kernel :
       {measure::SelectKernel::plain, measure::SelectKernel::momentum,
        measure::SelectKernel::nth_element}) {
    launch::Progress progress(io);
    progress.stage(
        fmt::format("{}: {} of {} floats", measure::name_of(kernel), options.k(), options.numel));
    const measure::SelectResult result = measure::measure_select(options, kernel, [&](int rep) {
      progress.detail(fmt::format("{}: step {} of {}", measure::name_of(kernel), rep + 1,
                                  options.warmup + options.reps));
    });
    progress.clear();
    print_result(io, report, result, flags.json, first);
    first = false;
    exact = exact && result.exact;
  }
  if (!exact) throw Error("bench select: a selection was not exact");
  return launch::kOk;
}

void add_bench_select(CLI::App& bench, Invocation& invocation) {
  CLI::App* command =
      add_command(bench, "select",
                  "Measures exact top-k with its residual on one core, next to the pass r += g.",
                  kSelectExamples);
  auto flags = std::make_shared<SelectFlags>();
  command->add_option("--numel", flags->numel, "floats per gradient (25M)")->type_name("N");
  command->add_option("--density", flags->options.density, "share that is selected (0.001)")
      ->type_name("D");
  command->add_option("--reps", flags->options.reps, "steps that count (11)")->type_name("R");
  command->add_option("--warmup", flags->options.warmup, "steps before them (10)")->type_name("W");
  command->add_option("--seed", flags->options.seed, "seed of the gradients (1)")
      ->type_name("S")
      ->check(whole_number(0, UINT64_MAX));
  command->add_flag("--json", flags->json, "a JSON line per kernel instead of the table");
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return bench_select(*flags, invocation.io); };
  });
}

}  // namespace

void add_bench(CLI::App& root, Invocation& invocation) {
  CLI::App* bench = add_command(root, "bench", "Measures the cost of an exchange.", kBenchExamples);
  add_bench_allreduce(*bench, invocation);
  add_bench_select(*bench, invocation);
}

}  // namespace thinwire::cli
