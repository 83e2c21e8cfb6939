// thinwire plan: predicts the time and the bytes of a step on more workers than there are.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/duration.h"
#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/help.h"
#include "plan/plan_report.h"
#include "thinwire/error.h"
#include "thinwire/launch.h"
#ifdef THINWIRE_TRAINER
#include "trainer/step_time.h"
#endif

namespace thinwire::cli {
namespace {

constexpr std::string_view kExamples = R"(Examples:
  thinwire plan --model resnet50 --network 1gbit,0.1ms --workers 4,8,16,32
  thinwire plan --numel 25M --step-time 350ms --network 1gbit,0.1ms
  thinwire plan --numel 25M --step-time 350ms --network 10gbit,50us --workers 256,1024 \
                --strategies "dense; gtopk; gtopk:density=0.01"   )";

constexpr std::size_t kUsualBatch = 32;

struct PlanFlags {
  std::string model, numel, step_time, network, strategies, workers = "4,8,16,32";
  std::size_t batch = kUsualBatch;
  std::uint64_t steps = plan::kUsualSteps;
  bool has_batch = false;
  bool full = false;
  bool json = false;
};

std::vector<std::string> all_strategies() {
  std::vector<std::string> out;
  for (const StrategyInfo& entry : strategies()) out.emplace_back(entry.name);
  return out;
}

#ifdef THINWIRE_TRAINER
Layout layout_of(const std::string& model) { return trainer::layout_of(model); }

void measure_step(plan::PlanSetting& setting, const PlanFlags& flags, launch::Progress& progress) {
  progress.stage(fmt::format("{}: computing steps of {} examples", flags.model, flags.batch));
  const trainer::StepTime measured = trainer::measure_step(flags.model, flags.batch);
  setting.workload.step_time = measured.seconds;
  setting.measured_batch = measured.measured_batch;
  setting.batch = flags.batch;
}
#else
constexpr std::string_view kNoModels = "this build has no libtorch, and so no models: give --numel";
Layout layout_of(const std::string& model) {
  throw ConfigError(fmt::format("--model {}: {} and --step-time", model, kNoModels));
}
void measure_step(plan::PlanSetting&, const PlanFlags&, launch::Progress&) {
  throw ConfigError(std::string(kNoModels));
}
#endif

// Throws ConfigError for everything that can be wrong. Only the time of a step may still be
// missing.
plan::PlanSetting read(const PlanFlags& flags) {
  if (flags.model.empty() == flags.numel.empty()) {
    throw ConfigError("plan: either --model M or --numel N is needed");
  }
  if (flags.network.empty()) {
    throw ConfigError("--network: it is needed; for example --network 1gbit,0.1ms");
  }
  if (flags.model.empty() && flags.step_time.empty()) {
    throw ConfigError(
        "--numel: --step-time is needed, too, the time that one worker computes in a step; for "
        "example "
        "--step-time 350ms. With --model it can be measured here");
  }
  if (flags.has_batch && !flags.step_time.empty()) {
    throw ConfigError(
        "--batch: it has no effect together with --step-time; it is the batch of the step that is "
        "measured here");
  }
  plan::PlanSetting setting;
  setting.model = flags.model;
  setting.workers = parse_worker_counts(flags.workers, plan::kMostPlannedWorkers);
  setting.strategies =
      flags.strategies.empty() ? all_strategies() : parse_strategies(flags.strategies);
  setting.workload.network = Network::parse(flags.network);
  if (!flags.step_time.empty()) {
    setting.workload.step_time = base::parse_duration("--step-time", flags.step_time);
  }
  setting.workload.layout = flags.model.empty() ? plan::synthetic_model(parse_numel(flags.numel))
                                                : layout_of(flags.model);
  setting.workload.steps = flags.steps;
  setting.workload.full = flags.full;
  find_backend("sim");  // throws if this build has none
  return setting;
}

int run_plan(const PlanFlags& flags, Invocation& invocation) {
  launch::Io& io = invocation.io;
  plan::PlanSetting setting = read(flags);
  std::vector<plan::Prediction> predictions;
  std::string last_reason;
  int code = launch::kOk;
  {
    launch::Progress progress(io);
    const auto leave_out = [&](const std::string& strategy, int workers, const char* reason) {
      progress.clear();
      last_reason = fmt::format("{}, {} workers: {}", strategy, workers, reason);
      io.err << "left out: " << last_reason << '\n';
    };
    if (flags.step_time.empty()) measure_step(setting, flags, progress);
    plan::Planner planner(setting.workload);
    for (const std::string& strategy : setting.strategies) {
      for (const int workers : setting.workers) {
        progress.stage(fmt::format("{}, {} workers", strategy, workers));
        try {
          predictions.push_back(planner.predict(strategy, workers));
        } catch (const ConfigError& reason) {
          leave_out(strategy, workers, reason.what());
          continue;
        } catch (const std::exception& failure) {  // the other predictions are still printed
          leave_out(strategy, workers, failure.what());
          code = launch::kRunFailed;
          continue;
        }
        if (!flags.json) continue;
        progress.clear();
        io.out << plan::plan_json(setting, predictions.back()) << '\n' << std::flush;
      }
    }
  }
  if (predictions.empty() && code == launch::kOk) throw ConfigError(last_reason);
  if (!flags.json && !predictions.empty()) {
    io.out << plan::plan_text(setting, predictions,
                              [&](std::string_view text) { return launch::bold(io, text); });
  }
  return code;
}

}  // namespace

void add_plan(CLI::App& root, Invocation& invocation) {
  CLI::App* command = add_command(
      root, "plan",
      "Predicts the time and the bytes of a step for each strategy and number of workers.",
      kExamples);
  auto flags = std::make_shared<PlanFlags>();
  command->add_option("--model", flags->model, "see `thinwire list models`")->type_name("M");
  command->add_option("--numel", flags->numel, "... or a number of parameters, such as 25M")
      ->type_name("N");
  command
      ->add_option("--step-time", flags->step_time,
                   "time to compute a step, such as 350ms (measured here)")
      ->type_name("T");
  CLI::Option* const batch =
      command->add_option("--batch", flags->batch, "examples per worker of the measured step (32)")
          ->type_name("B")
          ->check(whole_number(1, 1'000'000));
  command->add_option("--network", flags->network, "bandwidth and latency, such as 1gbit,0.1ms")
      ->type_name("BW,LAT");
  command
      ->add_option("--steps", flags->steps,
                   "length of the run, for automatic densities and ranks (10000)")
      ->type_name("N")
      ->check(whole_number(1, 1'000'000'000));
  command->add_option("--workers", flags->workers, "a list (4,8,16,32)")->type_name("P,...");
  command
      ->add_option("--strategies", flags->strategies,
                   "strategies, separated by semicolons (all); see `thinwire list strategies`")
      ->type_name("SPEC;...");
  command->add_flag(
      "--full", flags->full,
      "simulate every parameter, to check the prediction from a part of them (slow, and "
      "needs the memory of all workers)");
  command->add_flag("--json", flags->json, "a JSON line per strategy and number of workers");
  command->callback([&invocation, flags, batch] {
    flags->has_batch = batch->count() > 0;
    invocation.action = [&invocation, flags] { return run_plan(*flags, invocation); };
  });
}

}  // namespace thinwire::cli
