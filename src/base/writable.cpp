#include "base/writable.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "thinwire/error.h"

namespace thinwire::base {

void make_writable_directory(const std::string& out) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (!error && access(out.c_str(), W_OK | X_OK) != 0) error.assign(errno, std::generic_category());
  if (!error) return;
  throw ConfigError(
      fmt::format("{}: a directory to write to is needed ({})", out, error.message()));
}

}  // namespace thinwire::base
