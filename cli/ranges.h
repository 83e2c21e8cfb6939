// What numbers a flag takes. The check comes before the parser converts them, which would take -5
// for a very large number where none below 0 exist.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace thinwire::cli {

CLI::Validator whole_number(std::uint64_t lowest, std::uint64_t highest);
// Finite as well.
CLI::Validator number(double lowest, double highest);

}  // namespace thinwire::cli
