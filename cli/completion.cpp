// `thinwire help --completion bash`: the words of the command line for the Tab key.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <map>
#include <set>

#include "cli/argument_check.h"
#include "cli/help.h"
#include "cli/list.h"

namespace thinwire::cli {
namespace {

// The list whose names may follow a flag.
const std::map<std::string, std::string_view> kLists = {
    {"--strategy", "strategies"},
    {"--strategies", "strategies"},
    {"--transport", "transports"},
    {"--model", "models"},
    {"--data", "data"},
};

constexpr std::string_view kScript = R"bash(# Completion of thinwire's words for bash.
# Made by `thinwire help --completion bash`; it fits the thinwire that made it.

# Prints the words that may follow the command $1.
_thinwire_words() {{
  case $1 in
{words}  esac
}}

# Prints what may follow the flag $1; fails if nothing has to.
_thinwire_values() {{
  case $1 in
{values}  *) return 1 ;;
  esac
}}

_thinwire() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command=thinwire values i
  # bash takes --flag=value for three words.
  if [ "$current" = "=" ]; then
    current=
  elif [ "$previous" = "=" ] && [ "$COMP_CWORD" -ge 2 ]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${{COMP_WORDS[i]}}" in
{commands}) command+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
  COMPREPLY=()
  if values=$(_thinwire_values "$previous"); then
    case $values in
    DIR) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    FILE) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current") ;;
    esac
  else
    mapfile -t COMPREPLY < <(compgen -W "$(_thinwire_words "$command")" -- "$current")
  fi
}}
complete -F _thinwire thinwire
)bash";

// Collects the cases of the script, command by command.
class Cases {
 public:
  void add(const CLI::App& command, const std::string& name) {
    std::vector<std::string> words = command_names(command);
    for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; })) {
      add(*below, name + " " + below->get_name());
    }
    if (words.empty() && command.get_name() == "list") words = list_names();
    if (command.get_name() == "help") words = command_names(*command.get_parent());
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_group().empty() || !option->nonpositional()) continue;  // hidden
      for (const std::string& flag : option->get_lnames()) words.push_back(add_flag(*option, flag));
    }
    words_ += fmt::format("  '{}') echo '{}' ;;\n", name, fmt::join(words, " "));
    if (command.get_parent() != nullptr) commands_.push_back(fmt::format("'{}'", name));
  }

  std::string script() const {
    std::string values;
    for (const auto& [words, flags] : flags_) {
      values += fmt::format("  {}) echo '{}' ;;\n", fmt::join(flags, " | "), words);
    }
    return fmt::format(
        kScript, fmt::arg("words", words_), fmt::arg("values", values),
        fmt::arg("commands", "    " + fmt::format("{}", fmt::join(commands_, " | "))));
  }

 private:
  std::string add_flag(const CLI::Option& option, const std::string& name) {
    const std::string flag = "--" + name;
    if (option.get_expected_max() == 0) return flag;
    const auto list = kLists.find(flag);
    const std::string type = option.get_type_name();
    std::string values;  // a flag whose value is the user's own has none
    if (list != kLists.end()) {
      values = fmt::format("{}", fmt::join(names_in_list(list->second), " "));
    } else if (type == "DIR" || type == "FILE") {
      values = type;
    } else if (type == "SHELL") {
      values = "bash";
    }
    flags_[values].insert(flag);
    return flag;
  }

  std::string words_;
  std::vector<std::string> commands_;
  std::map<std::string, std::set<std::string>> flags_;  // by what may follow
};

}  // namespace

std::string bash_completion(const CLI::App& root) {
  Cases cases;
  cases.add(root, root.get_name());
  return cases.script();
}

}  // namespace thinwire::cli
