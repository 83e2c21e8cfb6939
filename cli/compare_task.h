// Checks and facts about the task of a comparison, before anything is trained.
#pragma once

#include <string>
#include <vector>

#include "cli/group.h"
#include "trainer/data/dataset.h"

namespace thinwire::cli {

// Returns the accuracy of a model that always gives the commonest label.
double chance(const trainer::Dataset& test);

// Returns the number of examples and a hash of all of them: data under the same name may change.
std::string fingerprint(const trainer::DataPair& data);

// Runs one step of a tiny model in this process, with as many workers as there will be. ConfigError
// if the strategy cannot run with that number, before other strategies have trained for hours.
void check_strategy(const std::string& strategy, const Group& group);

// ConfigError if a word cannot stand in reports and JSON, which are UTF-8.
void check_utf8(const std::vector<std::string>& words);

}  // namespace thinwire::cli
