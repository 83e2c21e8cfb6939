// The value of --strategies, as `compare` and `plan` take it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thinwire::cli {

// Splits a list such as "gtopk; qsgd:bits=2" into specs in their canonical form. ConfigError if
// there is none, if one is there twice, or if one is no strategy.
std::vector<std::string> parse_strategies(std::string_view text);

}  // namespace thinwire::cli
