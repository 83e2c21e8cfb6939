#include "base/unique_fd.h"

#include <unistd.h>

#include <cerrno>

namespace thinwire::base {

void UniqueFd::reset(int fd) noexcept {
  const int error = errno;
  const int old = std::exchange(fd_, fd < 0 ? -1 : fd);
  if (old >= 0) close(old);
  errno = error;
}

}  // namespace thinwire::base
