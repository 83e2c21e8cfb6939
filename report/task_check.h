// Facts about the task of a comparison, and checks before anything is trained.
#pragma once

#include <string>
#include <vector>

#include "trainer/data/dataset.h"

namespace thinwire::report {

// Returns the accuracy of a model that always gives the most common label.
double chance(const trainer::Dataset& test);

// Returns the number of examples and a hash of all of them, because data under the same name may
// change.
std::string fingerprint(const trainer::DataPair& data);

// Throws ConfigError if a word cannot be part of reports and JSON, which are UTF-8.
void check_utf8(const std::vector<std::string>& words);

}  // namespace thinwire::report
