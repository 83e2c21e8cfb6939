// Foreign text inside our messages.
#pragma once

#include <string>
#include <string_view>

namespace thinwire::base {

// The text with control characters as \xNN: what a user gave cannot break off a message, or steer
// the terminal it is shown on.
std::string visible(std::string_view text);

}  // namespace thinwire::base
