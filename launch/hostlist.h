// Slurm's short form of host names: "gpu[01-03,7],login".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thinwire::launch {

// Every host, in order. ConfigError, naming `variable`, if the brackets or ranges do not add up.
std::vector<std::string> expand_hostlist(std::string_view list, std::string_view variable);

}  // namespace thinwire::launch
