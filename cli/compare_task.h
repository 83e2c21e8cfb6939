// What can be known about the task of a comparison before anything is trained.
#pragma once

#include <string>
#include <vector>

#include "cli/group.h"
#include "trainer/data/dataset.h"

namespace thinwire::cli {

// What a model gets right that always gives the commonest answer: the largest share of a label.
double chance(const trainer::Dataset& test);

// How many examples there are, and a hash of all of them: data under the same name may change.
std::string fingerprint(const trainer::DataPair& data);

// One step of a tiny model in this process, by as many workers as there will be: what a strategy
// has against their number it says as a ConfigError here, and not after others have trained.
void check_strategy(const std::string& strategy, const Group& group);

// ConfigError if a word cannot stand in reports and JSON, which are UTF-8.
void check_utf8(const std::vector<std::string>& words);

}  // namespace thinwire::cli
