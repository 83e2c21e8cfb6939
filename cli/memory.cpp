#include "cli/memory.h"

#include <malloc.h>

#include <fstream>
#include <string>

namespace thinwire::cli {

std::optional<std::uint64_t> available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::uint64_t kibibytes = 0;
  while (file >> key >> kibibytes) {
    if (key == "MemAvailable:") return kibibytes * 1024;
    std::getline(file, unit);
  }
  return std::nullopt;
}

void give_memory_back() { malloc_trim(0); }

}  // namespace thinwire::cli
