// The manual page and the shell completion, made from the commands themselves.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace thinwire::cli {

// Returns the page thinwire(1) in roff, the language of `man`.
std::string manual_page(const CLI::App& root);

// Returns a bash script that completes commands, flags and, after flags such as --strategy, names.
std::string bash_completion(const CLI::App& root);

}  // namespace thinwire::cli
