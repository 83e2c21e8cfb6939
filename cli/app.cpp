// The root of the command line: parses, runs the command, turns errors into exit codes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/argument_check.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/hint.h"
#include "launch/launcher.h"
#include "thinwire/error.h"
#include "thinwire/version.h"

namespace thinwire::cli {
namespace {

constexpr std::string_view kExamples = R"(Examples:
  thinwire train --model lenet --data digits            trains with 4 workers on this machine
  thinwire plan --model resnet50 --network 1gbit,0.1ms  predicts runs with more workers
  thinwire compare --strategies "dense; gtopk; qsgd" --network 100mbit,0.2ms
                                                        which strategy suits this network?
  thinwire bench allreduce --numel 1000000              4 workers on this machine
  thinwire bench allreduce --network 1gbit,0.2ms        ... on an imitated network
  thinwire list strategies                              what can be chosen, with defaults
  thinwire help bench allreduce                         more about one command)";

std::unique_ptr<CLI::App> make_app(Invocation& invocation) {
  auto app = std::make_unique<CLI::App>("Trains neural networks over slow networks.", "thinwire");
  app->set_version_flag("--version", "thinwire " THINWIRE_VERSION, "the version");
  show_examples_first(*app, kExamples);
#ifdef THINWIRE_TRAINER
  add_train(*app, invocation);
  add_compare(*app, invocation);
#endif
  add_plan(*app, invocation);
  add_bench(*app, invocation);
  add_list(*app, invocation);
  add_help(*app, invocation);
  return app;
}

// Workers that failed because another rank did report it to our launcher by this code.
int exit_code(const TransportError&, const launch::Io& io) {
  return io.env(launch::kLauncherVariable) ? launch::kPeerFailed : launch::kRunFailed;
}

int run_action(const Invocation& invocation) {
  launch::Io& io = invocation.io;
  try {
    const int code = invocation.action();
    io.out.flush();
    if (code == launch::kOk && !io.out)
      throw Error("stdout: the output cannot be written; is the disk full?");
    return code;
  } catch (const ConfigError& error) {
    launch::print_error(io, with_hint(error));
    return launch::kBadUsage;
  } catch (const TransportError& error) {
    launch::print_error(io, with_hint(error));
    return exit_code(error, io);
  } catch (const Error& error) {
    launch::print_error(io, with_hint(error));
  } catch (const std::bad_alloc&) {
    launch::print_error(io, "out of memory");
  } catch (const std::exception& error) {
    launch::print_error(io, fmt::format("{} (a bug in thinwire: please report it)", error.what()));
  }
  return launch::kRunFailed;
}

}  // namespace

int run(std::vector<std::string> arguments, launch::Io& io) {
  Invocation invocation{io, std::move(arguments), nullptr};
  const std::unique_ptr<CLI::App> app = make_app(invocation);
  if (invocation.arguments.empty()) {
    io.err << app->help();
    return launch::kBadUsage;
  }
  const auto refuse = [&](std::string_view text) {
    launch::print_error(io, text);
    return launch::kBadUsage;
  };
  try {
    // CLI11 takes them from the back.
    app->parse(
        std::vector<std::string>(invocation.arguments.rbegin(), invocation.arguments.rend()));
  } catch (const CLI::ParseError& error) {
    // A word that does not exist explains most other errors: `--stratgy x` that --strategy is
    // missing. It also comes before --help.
    if (const auto unknown = unknown_word_error(*app)) return refuse(*unknown);
    if (dynamic_cast<const CLI::Success*>(&error) != nullptr) {  // --help, --version
      return app->exit(error, io.out, io.err);
    }
    return refuse(fmt::format("{}\nSee `{} --help`.", error.what(), chosen_command(*app)));
  } catch (const ConfigError& error) {
    return refuse(with_hint(error));
  }
  if (const auto missing = missing_command_error(*app)) return refuse(*missing);
  return run_action(invocation);
}

}  // namespace thinwire::cli
