#include "cli/argument_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "base/spec.h"
#include "thinwire/error.h"

namespace thinwire::cli {
namespace {

bool is_flag(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

const CLI::Option* find_flag(const CLI::App& app, const std::string& name) {
  const auto found = app.get_options([&](const CLI::Option* o) { return o->check_name(name); });
  return found.empty() ? nullptr : found.front();
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Steps through the words as the parser will. `path` grows by each command.
class Walk {
 public:
  explicit Walk(const CLI::App& root) : app_(&root), path_(root.get_name()) {}

  void step(const std::string& word) {
    if (value_follows_) {
      value_follows_ = false;
    } else if (is_flag(word)) {
      const auto equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const CLI::Option* flag = find_flag(*app_, name);
      if (flag == nullptr) {
        const std::string near = base::closest_match(name, flag_names(*app_));
        throw ConfigError(fmt::format(
            "unknown flag '{}': {}`{} --help` lists them", name,
            near.empty() ? std::string() : fmt::format("did you mean '{}'? ", near), path_));
      }
      terminal_ = terminal_ || flag == app_->get_help_ptr() || flag == app_->get_version_ptr();
      value_follows_ = equals == std::string::npos && flag->get_expected_max() > 0;
    } else if (const CLI::App* next = find_command(*app_, word)) {
      app_ = next;
      path_ += " " + word;
    } else if (const auto known = command_names(*app_); !known.empty()) {
      throw ConfigError(base::unknown_word("command", word, known));
    }
  }

  void finish() const {
    const auto known = command_names(*app_);
    if (!known.empty() && !terminal_) {
      throw ConfigError(
          fmt::format("`{}` needs one of these after it: {}", path_, fmt::join(known, ", ")));
    }
  }

  const std::string& path() const { return path_; }

 private:
  const CLI::App* app_;
  std::string path_;
  bool value_follows_ = false;
  bool terminal_ = false;  // --help or --version was seen
};

}  // namespace

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

void check_words(const CLI::App& root, std::span<const std::string> arguments) {
  Walk walk(root);
  for (const std::string& word : arguments) walk.step(word);
  walk.finish();
}

std::string named_command(const CLI::App& root, std::span<const std::string> arguments) {
  Walk walk(root);
  try {
    for (const std::string& word : arguments) walk.step(word);
  } catch (const ConfigError&) {
    // As far as it exists.
  }
  return walk.path();
}

}  // namespace thinwire::cli
