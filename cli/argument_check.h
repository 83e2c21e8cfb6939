// Errors for words of the command line that no command knows, with the closest word that exists.
// All functions are called after App::parse(), also if that has thrown.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace thinwire::cli {

// Returns the error for the first word that CLI11 left over (App::remaining()): a command or a flag
// that does not exist, or an argument where none is expected. Returns nothing if there is none.
std::optional<std::string> unknown_word_error(const CLI::App& root);

// Returns the error if the chosen command needs another one after it, as `bench` does.
std::optional<std::string> missing_command_error(const CLI::App& root);

// Returns the chosen command with those above it: "thinwire bench allreduce".
std::string chosen_command(const CLI::App& root);

// Returns the command directly below `app` of that name; null if there is none.
const CLI::App* find_command(const CLI::App& app, const std::string& word);
// Returns the names of all commands directly below `app`.
std::vector<std::string> command_names(const CLI::App& app);

}  // namespace thinwire::cli
