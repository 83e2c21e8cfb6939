// thinwire list: what can be chosen, with keys and defaults, straight from the registries.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/spec.h"
#include "cli/command.h"
#include "cli/help.h"
#include "thinwire/launch.h"
#include "thinwire/strategy.h"
#include "trainer/data/dataset.h"
#ifdef THINWIRE_TRAINER
#include "trainer/train.h"
#endif

namespace thinwire::cli {
namespace {

void print_entry(launch::Io& io, std::string_view name, std::string_view help) {
  io.out << launch::bold(io, fmt::format("{:<12}", name)) << help << '\n';
}

void print_keys(launch::Io& io, const std::vector<SpecKey>& keys) {
  for (const SpecKey& key : keys) {
    io.out << fmt::format("{:12}{:<22}  allowed: {}\n", "", key.name + "=" + key.fallback,
                          key.allowed);
  }
}

void list_strategies(launch::Io& io) {
  for (const StrategyInfo& strategy : strategies()) {
    print_entry(io, strategy.name, strategy.help);
    print_keys(io, strategy_keys(strategy.name));
  }
}

void list_transports(launch::Io& io) {
  for (const TransportBackend& engine : transport_backends()) {
    print_entry(io, engine.name, engine.help);
  }
}

#ifdef THINWIRE_TRAINER
void list_models(launch::Io& io) {
  for (const trainer::ModelHelp& model : trainer::model_list()) {
    print_entry(io, model.name, model.help);
  }
}
#else
void list_models(launch::Io& io) { io.out << "no models: this build has no libtorch\n"; }
#endif

void list_data(launch::Io& io) {
  for (const trainer::DataSource& source : trainer::data_sources()) {
    print_entry(io, source.name, source.help);
  }
}

struct List {
  std::string_view name;
  void (*print)(launch::Io&);
};
constexpr List kLists[] = {
    {"strategies", list_strategies},
    {"transports", list_transports},
    {"models", list_models},
    {"data", list_data},
};

int list(launch::Io& io, const std::string& word) {
  std::vector<std::string> known;
  for (const List& each : kLists) {
    if (each.name == word) {
      each.print(io);
      return launch::kOk;
    }
    known.emplace_back(each.name);
  }
  throw ConfigError(base::unknown_word("list", word, known));
}

}  // namespace

void add_list(CLI::App& root, Invocation& invocation) {
  auto word = std::make_shared<std::string>();
  CLI::App* command =
      root.add_subcommand("list", "Lists what can be chosen, with keys and defaults.");
  show_examples_first(*command,
                      "Examples:\n  thinwire list strategies\n  thinwire list transports");
  command->add_option("what", *word, "strategies, transports, models or data")->required();
  command->callback([&invocation, word] {
    invocation.action = [&invocation, word] { return list(invocation.io, *word); };
  });
}

}  // namespace thinwire::cli
