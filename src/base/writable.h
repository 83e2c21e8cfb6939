// Checks the directory that a command writes to before the command works for hours.
#pragma once

#include <string>

namespace thinwire::base {

// Creates the directory if it does not exist. Throws ConfigError, with the reason, if files cannot
// be created in it.
void make_writable_directory(const std::string& out);

}  // namespace thinwire::base
