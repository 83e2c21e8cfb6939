// thinwire list: what can be chosen, with keys and defaults, straight from the registries.
#include "cli/list.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

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

struct Entry {
  std::string_view name;
  std::string_view help;
};

template <class Registry>
std::vector<Entry> entries_of(const Registry& registry) {
  std::vector<Entry> out;
  for (const auto& entry : registry) out.push_back({entry.name, entry.help});
  return out;
}

struct List {
  std::string_view name;
  std::vector<Entry> (*entries)();
};
constexpr List kLists[] = {
    {"strategies", [] { return entries_of(strategies()); }},
    {"transports", [] { return entries_of(transport_backends()); }},
#ifdef THINWIRE_TRAINER
    {"models", [] { return entries_of(trainer::model_list()); }},
#else
    {"models", [] { return std::vector<Entry>(); }},
#endif
    {"data", [] { return entries_of(trainer::data_sources()); }},
};

const List& find_list(std::string_view word) {
  const auto* const found = std::ranges::find(kLists, word, &List::name);
  if (found == std::end(kLists)) {
    throw ConfigError(base::unknown_name("list", word, list_names()));
  }
  return *found;
}

void print_keys(launch::Io& io, const std::vector<SpecKey>& keys) {
  for (const SpecKey& key : keys) {
    io.out << fmt::format("{:12}{:<22}  allowed: {}\n", "", key.name + "=" + key.fallback,
                          key.allowed);
  }
}

int list(launch::Io& io, const std::string& word) {
  const List& chosen = find_list(word);
  const std::vector<Entry> entries = chosen.entries();
  if (entries.empty()) io.out << fmt::format("no {}: this build has no libtorch\n", word);
  for (const Entry& entry : entries) {
    io.out << launch::bold(io, fmt::format("{:<12}", entry.name)) << entry.help << '\n';
    if (chosen.name == "strategies") print_keys(io, strategy_keys(entry.name));
  }
  return launch::kOk;
}

}  // namespace

std::vector<std::string> list_names() {
  std::vector<std::string> out;
  for (const List& each : kLists) out.emplace_back(each.name);
  return out;
}

std::vector<std::string> names_in_list(std::string_view list) {
  std::vector<std::string> out;
  for (const Entry& entry : find_list(list).entries()) out.emplace_back(entry.name);
  return out;
}

void add_list(CLI::App& root, Invocation& invocation) {
  auto word = std::make_shared<std::string>();
  CLI::App* command =
      add_command(root, "list", "Lists what can be chosen, with keys and defaults.",
                  "Examples:\n  thinwire list strategies\n  thinwire list transports");
  command->add_option("what", *word, "strategies, transports, models or data");
  command->callback([&invocation, word] {
    invocation.action = [&invocation, word] {
      if (word->empty())
        throw ConfigError("list: a word is missing; for example thinwire list strategies");
      return list(invocation.io, *word);
    };
  });
}

}  // namespace thinwire::cli
