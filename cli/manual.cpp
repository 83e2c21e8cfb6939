// `thinwire help --man`: every command with its flags, as a page for `man`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <sstream>

#include "cli/help.h"
#include "launch/console.h"
#include "launch/token.h"
#include "thinwire/version.h"

namespace thinwire::cli {
namespace {

constexpr std::string_view kUsualGroup = "Options";

// Text that roff prints as it is. A line must not begin with a dot or a quote, which are commands.
std::string plain(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out = "\\&";
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", plain(text)); }
std::string italic(std::string_view text) { return fmt::format("\\fI{}\\fR", plain(text)); }

struct Entry {
  std::string name, text;
};

std::string entry(const std::string& title, std::string_view text) {
  return fmt::format(".TP\n{}\n{}\n", title, plain(text));
}

std::string full_name(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

std::vector<const CLI::App*> commands_below(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string option_title(const CLI::Option& option) {
  if (option.nonpositional()) {
    std::vector<std::string> names;
    for (const std::string& name : option.get_snames()) names.push_back(bold("-" + name));
    for (const std::string& name : option.get_lnames()) names.push_back(bold("--" + name));
    const std::string title = fmt::format("{}", fmt::join(names, ", "));
    return option.get_expected_max() == 0 ? title : title + " " + italic(option.get_type_name());
  }
  return italic(option.get_name());
}

std::string options(const CLI::App& command) {
  std::string out;
  for (const std::string& group : command.get_groups()) {
    if (group.empty()) continue;  // hidden
    const auto members =
        command.get_options([&](const CLI::Option* o) { return o->get_group() == group; });
    if (members.empty()) continue;
    if (group != kUsualGroup) out += fmt::format(".PP\n{}:\n", plain(group));
    for (const CLI::Option* option : members) {
      out += entry(option_title(*option), option->get_description());
    }
  }
  return out;
}

// The commands that do something: `bench` itself only has others below it.
std::vector<const CLI::App*> leaves(const CLI::App& app) {
  const auto below = commands_below(app);
  if (below.empty()) return {&app};
  std::vector<const CLI::App*> out;
  for (const CLI::App* command : below)
    std::ranges::copy(leaves(*command), std::back_inserter(out));
  return out;
}

// A line of a help text's examples, without the indentation, as it is.
std::string example_lines(const CLI::App& command) {
  constexpr std::string_view kTitle = "Examples:";
  std::istringstream footer(command.get_footer());
  std::string out;
  for (std::string line; std::getline(footer, line);) {
    if (line.empty() || line == kTitle) continue;
    out += plain(line.starts_with("  ") ? line.substr(2) : line) + "\n";
  }
  return out;
}

std::string section(std::string_view name, std::string_view body) {
  return fmt::format(".SH {}\n{}", name, body);
}

std::string entries(std::initializer_list<Entry> list) {
  std::string out;
  for (const Entry& each : list) out += entry(bold(each.name), each.text);
  return out;
}

std::string exit_status() {
  return entries({
      {fmt::format("{}", int{launch::kOk}), "The command did what it was asked to do."},
      {fmt::format("{}", int{launch::kRunFailed}),
       "The run failed: a worker died, the network failed, training diverged, a file could not be "
       "written. The message names the rank, its host and the operation."},
      {fmt::format("{}", int{launch::kBadUsage}),
       "The command line or the environment asks for something impossible. Nothing was started."},
      {fmt::format("{}", int{launch::kInterrupted}), "The run was interrupted from the keyboard."},
  });
}

std::string environment() {
  return entries({
      {std::string(launch::kTokenVariable),
       "A secret of the job, by which ranks on several machines recognize each other; the same as "
       "the contents of --token-file."},
      {"RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT",
       "The place of this worker in the group, as torchrun sets it."},
      {"OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID and those that go with them",
       "The place of this worker in the group, as mpirun and srun set it."},
      {"GLOO_SOCKET_IFNAME", "The network interface of the gloo transport; see --interface."},
      {"NO_COLOR", "If it is set, messages have no colours."},
  });
}

}  // namespace

std::string manual_page(const CLI::App& root) {
  std::string synopsis, commands, examples;
  for (const CLI::App* command : leaves(root)) {
    const std::string name = full_name(*command);
    const std::string flags = italic("flags");
    synopsis += fmt::format("{} [{}]\n.br\n", bold(name), flags);
    commands += fmt::format(".SS {}\n{}\n{}", plain(name), plain(command->get_description()),
                            options(*command));
    examples += fmt::format(".PP\n{}\n.PP\n.nf\n{}.fi\n", bold(name), example_lines(*command));
  }
  std::string summary = root.get_description();
  if (summary.ends_with('.')) summary.pop_back();
  summary.front() = static_cast<char>(std::tolower(summary.front()));
  return fmt::format(".TH THINWIRE 1 \"\" \"thinwire {}\" \"User Commands\"\n", THINWIRE_VERSION) +
         section("NAME", fmt::format("thinwire \\- {}\n", plain(summary))) +
         section("SYNOPSIS", synopsis) +
         section("DESCRIPTION",
                 "Workers on several machines, or on one, train a model together and exchange as "
                 "little as a slow network can carry.\n"
                 "A strategy decides what they exchange, a transport carries it.\n"
                 "Without a launcher thinwire starts the workers itself; torchrun, mpirun and srun "
                 "are recognized by their variables.\n" +
                     options(root)) +
         section("COMMANDS", commands) + section("EXIT STATUS", exit_status()) +
         section("ENVIRONMENT", environment()) + section("EXAMPLES", examples);
}

}  // namespace thinwire::cli
