// Help in three forms, made from the commands themselves: help texts that start with examples, the
// manual page, and the completion of the shell.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace thinwire::cli {

// Makes the command's help show the examples above everything else.
void show_examples_first(CLI::App& app, std::string_view examples);

// Adds a command below `parent`, with such a help. `parent` owns it.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& description,
                      std::string_view examples);

// Returns the page thinwire(1) in roff, the language of `man`.
std::string manual_page(const CLI::App& root);

// Returns a bash script that completes commands, flags and, after flags such as --strategy, names.
std::string bash_completion(const CLI::App& root);

}  // namespace thinwire::cli
