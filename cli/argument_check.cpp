#include "cli/argument_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "base/spec.h"
#include "base/text.h"

namespace thinwire::cli {
namespace {

bool is_flag(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Returns the commands that were chosen, outermost first; the root is the first one.
std::vector<const CLI::App*> chosen(const CLI::App& root) {
  std::vector<const CLI::App*> out = {&root};
  while (!out.back()->get_subcommands().empty()) {
    out.push_back(out.back()->get_subcommands().front());
  }
  return out;
}

std::string path_of(const CLI::App& app) {
  const CLI::App* above = app.get_parent();
  return above == nullptr ? app.get_name() : path_of(*above) + " " + app.get_name();
}

std::string unknown_flag(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const std::string near = base::closest_match(name, flag_names(app));
  const std::string hint = near.empty() ? "" : fmt::format("did you mean {}? ", near);
  return fmt::format("{}: unknown flag; {}'{} --help' lists all", base::visible(name), hint,
                     path_of(app));
}

}  // namespace

std::optional<std::string> unknown_word_error(const CLI::App& root) {
  for (const CLI::App* app : chosen(root)) {
    const std::vector<std::string> words = app->remaining();
    if (words.empty()) continue;
    const std::string& word = words.front();
    if (is_flag(word)) return unknown_flag(*app, word);
    if (const auto known = command_names(*app); !known.empty()) {
      return base::unknown_name("command", word, known);
    }
    return fmt::format("argument: unexpected ({}); see '{} --help'", base::visible(word),
                       path_of(*app));
  }
  return std::nullopt;
}

std::optional<std::string> missing_command_error(const CLI::App& root) {
  const CLI::App& last = *chosen(root).back();
  const std::vector<std::string> known = command_names(last);
  if (known.empty()) return std::nullopt;
  return fmt::format("{}: a command is missing; use one of {}", path_of(last),
                     fmt::join(known, ", "));
}

std::string chosen_command(const CLI::App& root) { return path_of(*chosen(root).back()); }

const CLI::App* find_command(const CLI::App& app, const std::string& word) {
  const auto found = app.get_subcommands([&](const CLI::App* a) { return a->get_name() == word; });
  return found.empty() ? nullptr : found.front();
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

}  // namespace thinwire::cli
