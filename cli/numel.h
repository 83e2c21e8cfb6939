// Numbers of floats on the command line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::cli {

// "25000000", "25M" or "100k"; ConfigError, which names --numel, for anything else.
std::size_t parse_numel(std::string_view text);
std::vector<std::size_t> parse_numels(std::string_view text);  // separated by commas

}  // namespace thinwire::cli
