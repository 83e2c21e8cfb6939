// Outcomes as lines of JSON, and the table made from such lines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/faults/trial.h"

namespace thinwire::faults {

std::string to_json(const Outcome& outcome, std::uint64_t seed);

// Returns Markdown tables: a row for each kind of fault on each transport, and one for each
// strategy.
std::string tables(const std::filesystem::path& lines);

}  // namespace thinwire::faults
