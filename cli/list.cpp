// thinwire list: what can be chosen, with keys and defaults, straight from the registries.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/help.h"
#include "thinwire/engines.h"
#include "thinwire/strategy.h"

namespace thinwire::cli {
namespace {

void print_entry(Io& io, std::string_view name, std::string_view help) {
  io.out << bold(io, fmt::format("{:<12}", name)) << help << '\n';
}

void print_keys(Io& io, const std::vector<SpecKey>& keys) {
  for (const SpecKey& key : keys) {
    io.out << fmt::format("{:12}{:<22}  allowed: {}\n", "", key.name + "=" + key.fallback,
                          key.allowed);
  }
}

void list_strategies(Io& io) {
  for (const Entry<Strategy>& entry : strategies()) {
    print_entry(io, entry.name, entry.help);
    print_keys(io, keys_of(entry));
  }
}

void list_transports(Io& io) {
  for (const Engine& engine : engines()) {
    print_entry(io, engine.name, engine.help);
  }
}

template <const auto& kWhat>
void list_nothing(Io& io) {
  io.out << "no " << kWhat << " in this version\n";
}
constexpr std::string_view kCodecs = "codecs", kModels = "models", kData = "data sets";

struct List {
  std::string_view name;
  void (*print)(Io&);
};
constexpr List kLists[] = {
    {"strategies", list_strategies}, {"codecs", list_nothing<kCodecs>},
    {"transports", list_transports}, {"models", list_nothing<kModels>},
    {"data", list_nothing<kData>},
};

int list(Io& io, const std::string& word) {
  std::vector<std::string> known;
  for (const List& each : kLists) {
    if (each.name == word) {
      each.print(io);
      return kOk;
    }
    known.emplace_back(each.name);
  }
  throw ConfigError(unknown_word("list", word, known));
}

}  // namespace

void add_list(CLI::App& root, Invocation& invocation) {
  auto word = std::make_shared<std::string>();
  CLI::App* command = root.add_subcommand("list", "What can be chosen, with keys and defaults.");
  show_examples_first(*command,
                      "Examples:\n  thinwire list strategies\n  thinwire list transports");
  command->add_option("what", *word, "strategies, codecs, transports, models or data")->required();
  command->callback([&invocation, word] {
    invocation.action = [&invocation, word] { return list(invocation.io, *word); };
  });
}

}  // namespace thinwire::cli
