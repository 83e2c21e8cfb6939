#include "cli/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/spec.h"
#include "cli/argument_check.h"
#include "cli/command.h"
#include "thinwire/error.h"

namespace thinwire::cli {
namespace {

class ExamplesFirst final : public CLI::Formatter {
 public:
  ExamplesFirst() {
    column_width(34);
    label("OPTIONS", "flags");
    label("SUBCOMMAND", "command");
  }

  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode mode) const override {
    std::string name = app->get_name();
    for (const CLI::App* above = app->get_parent(); above != nullptr; above = above->get_parent()) {
      name.insert(0, above->get_name() + " ");
    }
    return tidy(fmt::format("{}\n{}{}{}{}{}", make_footer(app), make_description(app),
                            make_usage(app, name), make_positionals(app), make_groups(app, mode),
                            make_subcommands(app, mode)));
  }

 private:
  // One empty line between parts, none at the end.
  static std::string tidy(std::string text) {
    const auto newline = [](char a, char b) { return a == '\n' && b == '\n'; };
    for (auto at = text.begin();
         (at = std::adjacent_find(at, text.end(), newline)) != text.end();) {
      const auto gap_end = std::find_if(at, text.end(), [](char c) { return c != '\n'; });
      at = text.erase(at + (gap_end == text.end() ? 1 : 2), gap_end);
    }
    return text;
  }
};

}  // namespace

void show_examples_first(CLI::App& app, std::string_view examples) {
  app.set_help_flag("-h,--help", "this text");
  app.footer(std::string(examples));
  app.formatter(std::make_shared<ExamplesFirst>());
  app.group("Commands");
  app.require_subcommand(0, 1);  // one at most: the words after `help` are not to be run
}

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& description,
                      std::string_view examples) {
  CLI::App* command = parent.add_subcommand(name, description);
  show_examples_first(*command, examples);
  return command;
}

namespace {

struct HelpFlags {
  std::vector<std::string> words;
  std::string shell;
  bool manual = false;
};

std::string text_for(const CLI::App& root, const HelpFlags& flags) {
  if (flags.manual) return manual_page(root);
  if (!flags.shell.empty()) {
    if (flags.shell == "bash") return bash_completion(root);
    throw ConfigError(fmt::format("--completion {}: only bash is supported", flags.shell));
  }
  const CLI::App* app = &root;
  for (const std::string& word : flags.words) {
    const CLI::App* next = find_command(*app, word);
    if (next == nullptr)
      throw ConfigError(base::unknown_name("command", word, command_names(*app)));
    app = next;
  }
  return app->help();
}

}  // namespace

void add_help(CLI::App& root, Invocation& invocation) {
  auto flags = std::make_shared<HelpFlags>();
  CLI::App* command = add_command(root, "help", "Explains a command, with examples.", R"(Examples:
  thinwire help bench allreduce                         more about one command
  thinwire help --man | man -l -                        the manual page
  source <(thinwire help --completion bash)             the Tab key completes thinwire's words)");
  command->add_option("command", flags->words, "the words of the command");
  command->add_flag("--man", flags->manual, "the manual page, thinwire.1");
  command->add_option("--completion", flags->shell, "a completion script for the shell: bash")
      ->type_name("SHELL");
  command->callback([&root, &invocation, flags] {
    invocation.action = [&root, &invocation, flags] {
      invocation.io.out << text_for(root, *flags);
      return launch::kOk;
    };
  });
}

}  // namespace thinwire::cli
