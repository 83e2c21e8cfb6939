// Checks the directory that a command writes to before the command works for hours.
#pragma once

#include <string>

namespace thinwire::base {

// Makes the directory if there is none. ConfigError, with the reason, if files cannot be made in
// it.
void make_writable_directory(const std::string& out);

}  // namespace thinwire::base
