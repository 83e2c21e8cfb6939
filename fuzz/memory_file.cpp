#include "fuzz/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <system_error>

namespace thinwire::fuzz {
namespace {

void check(bool succeeded) {
  if (!succeeded) throw std::system_error(errno, std::generic_category(), "a file in memory");
}

}  // namespace

MemoryFile::MemoryFile(Bytes contents) : file_(memfd_create("input", MFD_CLOEXEC)) {
  check(static_cast<bool>(file_));
  const auto size = static_cast<ssize_t>(contents.size());
  check(write(file_.fd(), contents.data(), contents.size()) == size);
}

void MemoryFile::resize(std::size_t bytes) {
  check(ftruncate(file_.fd(), static_cast<off_t>(bytes)) == 0);
}

std::filesystem::path MemoryFile::path() const {
  return "/proc/self/fd/" + std::to_string(file_.fd());
}

}  // namespace thinwire::fuzz
