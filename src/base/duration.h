// Parses durations that a user wrote.
#pragma once

#include <string_view>

#include "thinwire/types.h"

namespace thinwire::base {

// Parses "0.35s", "350ms", "350us" or a number of seconds without a unit. Throws ConfigError, which
// names `name`, unless the duration is more than 0 and at most 10^5 s.
Seconds parse_duration(std::string_view name, std::string_view text);

}  // namespace thinwire::base
