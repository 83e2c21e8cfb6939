// Makes text from outside safe to show in messages.
#pragma once

#include <string>
#include <string_view>

namespace thinwire::base {

// Returns the text with control characters written as \xNN, so that it can neither break a message
// into lines nor control the terminal that shows the message.
std::string visible(std::string_view text);

}  // namespace thinwire::base
