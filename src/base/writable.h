// Where a command writes to is looked at before it works for hours.
#pragma once

#include <string>

namespace thinwire::base {

// Makes the directory of --out where there is none. ConfigError, with the reason, if files cannot
// be made in it.
void make_writable_directory(const std::string& out);

}  // namespace thinwire::base
