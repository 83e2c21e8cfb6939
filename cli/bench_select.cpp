#include "cli/bench_select.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "bench/measure/select_bench.h"
#include "cli/bench_limits.h"
#include "cli/help.h"
#include "cli/numel.h"
#include "cli/ranges.h"
#include "cli/select_report.h"
#include "thinwire/error.h"

namespace thinwire::cli {
namespace {

constexpr std::string_view kExamples = R"(Examples:
  thinwire bench select                            1 of 1000 of 25 million floats
  thinwire bench select --numel 1M --density 0.01
  thinwire bench select --json)";

struct SelectFlags {
  measure::SelectBenchOptions plan;
  std::string numel = "25M";
  bool json = false;
};

void check(const measure::SelectBenchOptions& plan) {
  check_repetitions(plan.reps, plan.warmup);
  if (!(plan.density > 0 && plan.density <= 1)) {
    throw ConfigError(
        fmt::format("--density {}: it must be more than 0 and at most 1", plan.density));
  }
  check_floats(plan.numel, measure::kSelectBuffers);
}

int bench_select(SelectFlags flags, launch::Io& io) {
  measure::SelectBenchOptions& plan = flags.plan;
  plan.numel = parse_numel(flags.numel);
  check(plan);
  SelectReport report(io, plan, flags.json);
  bool exact = true;
  for (const measure::SelectKernel kernel :
       {measure::SelectKernel::plain, measure::SelectKernel::momentum,
        measure::SelectKernel::nth_element}) {
    launch::Progress progress(io);
    progress.stage(
        fmt::format("{}: {} of {} floats", measure::name_of(kernel), plan.k(), plan.numel));
    const measure::SelectResult result = measure::measure_select(plan, kernel, [&](int rep) {
      progress.detail(fmt::format("{}: step {} of {}", measure::name_of(kernel), rep + 1,
                                  plan.warmup + plan.reps));
    });
    progress.clear();
    report.add(result);
    exact = exact && result.exact;
  }
  if (!exact) throw Error("bench select: a selection was not exact");
  return launch::kOk;
}

}  // namespace

void add_bench_select(CLI::App& bench, Invocation& invocation) {
  CLI::App* command = bench.add_subcommand(
      "select", "Measures exact top-k with its residual on one core, next to the pass r += g.");
  show_examples_first(*command, kExamples);
  auto flags = std::make_shared<SelectFlags>();
  command->add_option("--numel", flags->numel, "floats per gradient (25M)")->type_name("N");
  command->add_option("--density", flags->plan.density, "share that is selected (0.001)")
      ->type_name("D");
  command->add_option("--reps", flags->plan.reps, "steps that count (11)")->type_name("R");
  command->add_option("--warmup", flags->plan.warmup, "steps before them (10)")->type_name("W");
  command->add_option("--seed", flags->plan.seed, "seed of the gradients (1)")
      ->type_name("S")
      ->check(whole_number(0, UINT64_MAX));
  command->add_flag("--json", flags->json, "a JSON line per kernel instead of the table");
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return bench_select(*flags, invocation.io); };
  });
}

}  // namespace thinwire::cli
