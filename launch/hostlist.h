// Reads Slurm's short form of lists of host names: "gpu[01-03,7],login".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thinwire::launch {

// Returns every host, in order. Throws ConfigError, which names `variable`, if a bracket or a range
// is malformed.
std::vector<std::string> expand_hostlist(std::string_view list, std::string_view variable);

}  // namespace thinwire::launch
