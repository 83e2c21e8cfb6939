// The secret by which the ranks of a job recognize each other; see docs/security.md.
#pragma once

#include <string>
#include <string_view>

#include "launch/environment.h"

namespace thinwire::launch {

inline constexpr std::string_view kTokenVariable = "THINWIRE_TOKEN";

// Returns the token from the file if one is named, or else from THINWIRE_TOKEN, without the white
// space around it; returns an empty text if there is neither. Throws ConfigError if the token is
// easily guessed, if the file cannot be read, or if other users can read it.
std::string find_token(const std::string& file, const Environment& env);

// Returns 256 random bits as hexadecimal text.
std::string fresh_token();

}  // namespace thinwire::launch
