// The flags that every command with workers has.
#pragma once

#include "launch/group.h"

namespace CLI {
class App;
}

namespace thinwire::cli {

void add_group_flags(CLI::App& command, launch::GroupOptions& options);

}  // namespace thinwire::cli
