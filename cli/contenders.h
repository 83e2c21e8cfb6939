// The strategies of a comparison, as asked for on the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thinwire::cli {

// Of "gtopk; qsgd:bits=2": each spec in its one text form, after the baseline, which is added if it
// is missing. ConfigError if there is none, if one is there twice, or if one is no strategy.
std::vector<std::string> parse_contenders(std::string_view text);

}  // namespace thinwire::cli
