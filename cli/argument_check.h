// Refuses commands and flags that do not exist, with the closest one that does.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace thinwire::cli {

// Throws ConfigError for the first word that is no command or flag of `root`, or if a command that
// needs another one after it stands alone. Values are not looked at.
void check_words(const CLI::App& root, std::span<const std::string> arguments);

// "thinwire bench allreduce": the command that the arguments name, as far as it exists.
std::string named_command(const CLI::App& root, std::span<const std::string> arguments);

// The command below `app` of that name; null if there is none.
const CLI::App* find_command(const CLI::App& app, const std::string& word);
std::vector<std::string> command_names(const CLI::App& app);

}  // namespace thinwire::cli
