// Values of flags: which texts stand for a number or a list. Each function refuses other texts by
// an error that names the flag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class Validator;
}

namespace thinwire::cli {

// Return checks that the parser makes before it converts a number, because the conversion would
// take -5 for a very large number where none below 0 exist. number() also refuses what is not
// finite.
CLI::Validator whole_number(std::uint64_t lowest, std::uint64_t highest);
CLI::Validator number(double lowest, double highest);

// Return the value of --numel: "25000000", "25M" or "100k", or several of these separated by
// commas. Throw ConfigError for anything else.
std::size_t parse_numel(std::string_view text);
std::vector<std::size_t> parse_numels(std::string_view text);

// Returns the value of --workers where it is a list such as "4,8,16", without repetitions. Throws
// ConfigError if one of them is not in 1 ... highest.
std::vector<int> parse_worker_counts(std::string_view text, int highest);

// Splits the value of --strategies, such as "gtopk; qsgd:bits=2", into specs in their canonical
// form. Throws ConfigError if there is none, if one is there twice, or if one is no strategy.
std::vector<std::string> parse_strategies(std::string_view text);

}  // namespace thinwire::cli
