// The secret by which the ranks of a job recognise each other: docs/security.md.
#pragma once

#include <string>
#include <string_view>

#include "launch/environment.h"

namespace thinwire::launch {

inline constexpr std::string_view kTokenVariable = "THINWIRE_TOKEN";

// From the file if one is named, else from THINWIRE_TOKEN, without the white space around it; empty
// if there is neither. ConfigError if it is too short to be a secret, or if the file cannot be read
// or can be by others.
std::string find_token(const std::string& file, const Environment& env);

// 256 random bits as text.
std::string fresh_token();

}  // namespace thinwire::launch
