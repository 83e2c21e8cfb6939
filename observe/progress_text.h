// One line for people that says how far a run is, from an event of its stream. `train` and
// `compare` show the same text.
#pragma once

#include <string>

#include "observe/events.h"

namespace thinwire::observe {

// Returns the text of a step or evaluated event. Fields that are missing or null count as unknown;
// no event makes these throw.
std::string step_text(const Json& event);
std::string evaluated_text(const Json& event);

}  // namespace thinwire::observe
