// Durations on the command line.
#pragma once

#include <string_view>

#include "thinwire/types.h"

namespace thinwire::base {

// "0.35s", "350ms", "350us" or plain seconds, more than 0 and at most 10^5 s; ConfigError, which
// names the flag, for anything else.
Seconds parse_duration(std::string_view flag, std::string_view text);

}  // namespace thinwire::base
