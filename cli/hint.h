// What a user can change about an error, in words of the command line. The library itself knows no
// flag.
#pragma once

#include <string>

#include "thinwire/error.h"

namespace thinwire::cli {

// Returns a clause that names the flag, or nothing if no flag helps.
std::string hint(const ErrorFields& fields);

// Returns the text of an error with its hint: "object: problem (value); hint".
std::string with_hint(const Error& error);

}  // namespace thinwire::cli
