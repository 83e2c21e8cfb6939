// Facts about strategies as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "thinwire/strategy.h"

namespace thinwire::c_api {

// Returns whether a strategy exchanges models, not gradients.
bool exchanges_models(const Strategy& strategy);
// Return the results of tw_list() and, for its options, of tw_strategy_info().
nlohmann::json library_listing();
nlohmann::json strategy_info(const char* options);

}  // namespace thinwire::c_api
