#include "cli/codec_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/bench_limits.h"
#include "cli/codec_bench.h"
#include "cli/codec_report.h"
#include "cli/help.h"
#include "cli/numel.h"
#include "cli/ranges.h"
#include "thinwire/codec.h"

namespace thinwire::cli {
namespace {

constexpr std::string_view kExamples = R"(Examples:
  thinwire bench codec                                          every codec, 25 million floats
  thinwire bench codec --codec sparse:density=0.01 --codec half --numel 1M
  thinwire bench codec --json)";

struct CodecFlags {
  CodecPlan plan;
  std::string numel = "25M";
  bool json = false;
};

void check(const CodecPlan& plan) {
  for (const std::string& codec : plan.codecs) make_codec(codec);
  check_repetitions(plan.reps, plan.warmup);
  check_floats(plan.numel, kCodecBuffers);
}

int bench_codec(CodecFlags flags, Io& io) {
  CodecPlan& plan = flags.plan;
  if (plan.codecs.empty()) {
    for (const Entry<Codec>& entry : codecs()) plan.codecs.emplace_back(entry.name);
  }
  plan.numel = parse_numel(flags.numel);
  check(plan);
  CodecReport report(io, plan, flags.json);
  bool conserved = true;
  for (const std::string& codec : plan.codecs) {
    Progress progress(io);
    progress.stage(fmt::format("{}: {} floats", codec, plan.numel));
    const CodecResult result = measure_codec(plan, codec, [&](int rep) {
      progress.detail(
          fmt::format("{}: repetition {} of {}", codec, rep + 1, plan.warmup + plan.reps));
    });
    progress.clear();
    report.add(result);
    conserved = conserved && result.conserved;
  }
  if (!conserved) throw Error("a codec lost something: what it sent and kept is not what it got");
  return kOk;
}

}  // namespace

void add_bench_codec(CLI::App& bench, Invocation& invocation) {
  CLI::App* command = bench.add_subcommand(
      "codec", "A gradient to bytes and back, on one core: bytes beside the entropy, and time.");
  show_examples_first(*command, kExamples);
  auto flags = std::make_shared<CodecFlags>();
  command
      ->add_option("--codec", flags->plan.codecs,
                   "name or name:key=value,..., may be repeated (all); see `thinwire list codecs`")
      ->type_name("SPEC")
      ->allow_extra_args(false);
  command->add_option("--numel", flags->numel, "floats per gradient (25M)")->type_name("N");
  command->add_option("--reps", flags->plan.reps, "repetitions that count (11)")->type_name("R");
  command->add_option("--warmup", flags->plan.warmup, "repetitions before them (3)")
      ->type_name("W");
  command->add_option("--seed", flags->plan.seed, "of the gradients (1)")
      ->type_name("S")
      ->check(whole_number(0, UINT64_MAX));
  command->add_flag("--json", flags->json, "a JSON line per codec instead of the table");
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return bench_codec(*flags, invocation.io); };
  });
}

}  // namespace thinwire::cli
