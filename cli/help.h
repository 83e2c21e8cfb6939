// Help texts that start with examples.
#pragma once

#include <string_view>

namespace CLI {
class App;
}

namespace thinwire::cli {

// The command's help shows the examples above everything else.
void show_examples_first(CLI::App& app, std::string_view examples);

}  // namespace thinwire::cli
