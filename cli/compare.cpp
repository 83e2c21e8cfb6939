// thinwire compare: several strategies on the same task, one after the other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/group_flags.h"
#include "cli/help.h"
#include "cli/train_events.h"
#include "cli/train_flags.h"
#include "launch/launcher.h"
#include "plan/trial_step.h"
#include "report/comparison_runner.h"
#include "report/recommendation.h"
#include "report/task_check.h"
#include "thinwire/version.h"

namespace thinwire::cli {
namespace {

constexpr std::string_view kExamples = R"(Examples:
  thinwire compare --strategies "dense; gtopk; qsgd" --network 100mbit,0.2ms
  thinwire compare --strategies "gtopk:density=0.01; gtopk:density=0.001" --out runs/density
  thinwire compare --strategies "localsgd; gossip; lasgd" --slow 1:3 --epochs 5
  thinwire compare --strategies "topk; gtopk" --transport sim --workers 32 --network 1gbit,0.1ms)";

constexpr std::uint64_t kTests = 15;  // points on a curve, unless --eval-every says otherwise

struct CompareFlags {
  std::string strategies;
  TrainFlags train;
};

// Returns the word quoted so that a shell takes it as it is.
std::string quoted(const std::string& word) {
  constexpr std::string_view kSpecial = " \t\n\"'`$&|;<>(){}[]*?!#~\\";
  if (!word.empty() && word.find_first_of(kSpecial) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

bool imitates_network(const TrainFlags& flags) { return !flags.group.network.empty(); }

report::Setting setting_of(const TrainFlags& flags, const launch::Group& group,
                           const std::string& examples) {
  const trainer::TrainOptions& options = flags.options;
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  return {{"model", options.model},
          {"data", options.data},
          {"examples", examples},
          {"workers", text(group.join.size)},
          {"transport", group.transport},
          {"network", imitates_network(flags)    ? flags.group.network
                      : group.transport == "sim" ? "none (infinitely fast)"
                                                 : "none (this machine's memory)"},
          {"steps", text(options.steps)},
          {"batch", text(options.batch)},
          {"lr", text(options.learning_rate)},
          {"lr-schedule", options.lr_schedule},
          {"momentum", text(flags.momentum)},
          {"nesterov", text(options.sgd.nesterov)},
          {"weight-decay", text(flags.weight_decay)},
          {"seed", text(options.seed)},
          {"eval-every", text(options.eval_every)},
          {"check-every", text(options.session.check_every)},
          {"nonfinite", flags.nonfinite},
          {"slow", fmt::format("{}", fmt::join(flags.slow, " "))},
          {"step-time", text(flags.step_time)},
          {"version", THINWIRE_VERSION}};
}

std::string title_of(const TrainFlags& flags, const launch::Group& group) {
  return fmt::format(
      "{} on {}, {} {} over {}{}", flags.options.model, flags.options.data, group.join.size,
      group.join.size == 1 ? "worker" : "workers", group.transport,
      imitates_network(flags) ? " at " + flags.group.network : ", no network imitated");
}

// Returns the options of `compare` that are meant for the runs, as words of `train`.
std::vector<std::string> words_for_train(const CLI::App& command) {
  const std::set<std::string> own = {"strategies", "out", "json", "eval-every"};
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    const std::string& name = option->get_lnames().front();
    if (own.contains(name)) continue;
    const bool takes_value = option->get_expected_max() > 0;
    for (const std::string& value : option->results()) {
      words.push_back("--" + name + (takes_value ? "=" + value : ""));
    }
  }
  return words;
}

// The checked options of a comparison, and what they mean for its runs.
class Compare {
 public:
  // Throws ConfigError for everything that can be wrong before the first run.
  Compare(TrainFlags flags, const std::vector<std::string>& strategies, const CLI::App& command,
          Invocation& invocation)
      : io_(invocation.io),
        flags_(std::move(flags)),
        group_(launch::choose_group(flags_.group, io_.env)),
        words_(words_for_train(command)) {
    if (group_.start == launch::Group::Start::by_others) {
      throw ConfigError(
          "compare: it starts its workers by itself, on this machine; run it once, without a "
          "launcher. To compare on several machines, run `thinwire train --json` once per "
          "strategy");
    }
    report::check_utf8(invocation.arguments);
    check_options();
    for (const std::string& strategy : strategies) check_strategy(strategy);
    describe(strategies, invocation.arguments);
  }

  int run() {
    const std::string& out = flags_.options.out;
    report::ComparisonStore store(
        out.empty() ? report::ComparisonStore::default_name(comparison_.setting) : out,
        comparison_.setting);
    report::RunFunctions functions;
    functions.train = [&](const report::RunRequest& run, launch::Io& io) { return train(run, io); };
    functions.can_resume = [&](const std::string& strategy,
                               const std::filesystem::path& directory) {
      return can_resume(strategy, directory);
    };
    report::ComparisonRunner runner(std::move(comparison_), std::move(store), std::move(functions));
    const int code = runner.run(io_, [&](const report::ComparedRun& run) {
      if (flags_.json) io_.out << run.summary << std::endl;
    });
    if (code == launch::kInterrupted) {
      launch::print_error(
          io_,
          fmt::format("compare: finished runs are kept in {}; the same command goes on from here",
                      runner.directory().string()));
    } else {
      print_results(runner.comparison(), runner.page().string());
    }
    return code;
  }

 private:
  // Loads the data to count the steps and to check the model against it, and then drops it.
  void check_options() {
    trainer::TrainOptions& options = flags_.options;
    const trainer::DataPair data = trainer::load_data(options.data, options.seed);
    complete(flags_, group_, data);
    if (options.eval_every == 0) options.eval_every = (options.steps + kTests - 1) / kTests;
    options.session.strategy = report::kBaseline;
    parameters_ = check(options, data);
    check_memory(parameters_, group_);
    comparison_.chance = report::chance(*data.test);
    comparison_.setting = setting_of(flags_, group_, report::fingerprint(data));
  }

  // Throws ConfigError if the strategy cannot run with that number of workers, before other
  // strategies have trained for hours.
  void check_strategy(const std::string& strategy) const {
    if (const auto reason = plan::refusal_of(strategy, group_.transport, group_.join.size)) {
      throw ConfigError(fmt::format("--strategies {}: {}", strategy, *reason));
    }
  }

  void describe(const std::vector<std::string>& strategies,
                const std::vector<std::string>& arguments) {
    comparison_.title = title_of(flags_, group_);
    comparison_.virtual_time = group_.transport == "sim";
    comparison_.network_imitated = imitates_network(flags_);
    comparison_.same_computing =
        flags_.slow.empty() && !(comparison_.virtual_time && flags_.step_time > 0);
    std::vector<std::string> typed = {"thinwire"};
    for (const std::string& word : arguments) typed.push_back(quoted(word));
    comparison_.command = fmt::format("{}", fmt::join(typed, " "));
    for (const std::string& strategy : strategies) {
      comparison_.runs.emplace_back().strategy = strategy;
    }
  }

  bool can_resume(const std::string& strategy, const std::filesystem::path& directory) const {
    trainer::TrainOptions options = flags_.options;
    options.session.strategy = strategy;
    options.out = directory.string();
    try {
      for (int rank = 0; rank < group_.join.size; ++rank) {
        check_resume(options, parameters_, rank, group_.join.size);
      }
    } catch (const ConfigError&) {
      return false;
    }
    return true;
  }

  int train(const report::RunRequest& run, launch::Io& io) const {
    launch::LaunchOptions launch;
    launch.command = {std::filesystem::read_symlink("/proc/self/exe"),
                      "train",
                      "--quiet",
                      "--strategy=" + run.strategy,
                      "--out=" + run.directory.string(),
                      "--events=" + run.events.string(),
                      fmt::format("--eval-every={}", flags_.options.eval_every)};
    launch.command.insert(launch.command.end(), words_.begin(), words_.end());
    if (run.resume) launch.command.emplace_back("--resume");
    launch.workers = group_.start == launch::Group::Start::by_us ? group_.join.size : 1;
    launch.timeout = group_.join.timeout;
    launch.on_failure = [&](const launch::RunFailure& failure) {
      append_exit(run.events, failure);
    };
    return launch::launch_workers(launch, io);
  }

  static void append_exit(const std::filesystem::path& events, const launch::RunFailure& failure) {
    try {
      TrainEvents(events.string(), observe::EventWriter::Open::append, std::nullopt).exit(failure);
    } catch (const Error&) {
      // The file cannot be opened; stderr of the run has the same text.
    }
  }

  void print_results(const report::Comparison& comparison, const std::string& page) const {
    const report::Recommendation recommendation = report::recommend(comparison);
    if (flags_.json) {
      io_.err << fmt::format("{}\nreport: {}\n", recommendation.headline, page);
      return;
    }
    const report::CompareTable table(comparison);
    io_.out << launch::bold(io_, comparison.title) << "\n\n"
            << launch::bold(io_, table.heading(recommendation)) << '\n';
    for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
      const report::ComparedRun& run = comparison.runs[i];
      io_.out << table.row(run, recommendation.comparisons[i], recommendation,
                           "failed: " + run.problem)
              << '\n';
    }
    io_.out << '\n' << launch::bold(io_, recommendation.headline) << '\n';
    for (const std::string& sentence : recommendation.sentences)
      io_.out << "  " << sentence << '\n';
    for (const std::string& caveat : recommendation.caveats) io_.out << caveat << '\n';
    io_.out << "report: " << page << std::endl;
  }

  launch::Io& io_;
  TrainFlags flags_;
  launch::Group group_;
  std::vector<std::string> words_;  // for `train`
  std::size_t parameters_ = 0;
  report::Comparison comparison_;
};

std::vector<std::string> with_baseline(std::vector<std::string> strategies) {
  if (std::ranges::find(strategies, report::kBaseline) == strategies.end()) {
    strategies.insert(strategies.begin(), std::string(report::kBaseline));
  }
  return strategies;
}

}  // namespace

void add_compare(CLI::App& root, Invocation& invocation) {
  CLI::App* command = add_command(
      root, "compare",
      "Trains with several strategies on the same task, one after the other, and writes a report.",
      kExamples);
  auto flags = std::make_shared<CompareFlags>();
  command
      ->add_option("--strategies", flags->strategies,
                   "strategies to compare, separated by semicolons (needed); dense is added as the "
                   "baseline")
      ->type_name("\"SPEC; SPEC\"");
  add_training_flags(*command, flags->train);
  command
      ->add_option(
          "--out", flags->train.options.out,
          "directory for runs, report.html and compare.csv; an interrupted comparison goes "
          "on there (compare-MODEL-DATA-...)")
      ->type_name("DIR");
  add_run_flags(*command, flags->train);
  command->get_option("--eval-every")->description("steps between tests (about 15 per run)");
  add_group_flags(*command, flags->train.group);
  command->add_flag("--json", flags->train.json, "a JSON object per strategy instead of the table");
  command->callback([&invocation, flags, command] {
    invocation.action = [&invocation, flags, command] {
      if (command->count("--strategies") == 0) {
        throw ConfigError(
            "compare: --strategies is missing; for example --strategies \"dense; gtopk; qsgd\"");
      }
      const auto strategies = with_baseline(parse_strategies(flags->strategies));
      return Compare(flags->train, strategies, *command, invocation).run();
    };
  });
}

}  // namespace thinwire::cli
