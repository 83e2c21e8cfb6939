#include "base/memory.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace thinwire::base {
namespace {

namespace fs = std::filesystem;

using Amount = std::optional<std::uint64_t>;

Amount least(Amount a, Amount b) { return a && b ? std::min(*a, *b) : a ? a : b; }

// Returns the number that follows `word` in a file that has a word and a number on each line.
Amount find_number(const fs::path& path, std::string_view word) {
  std::ifstream file(path);
  std::string key, rest;
  std::uint64_t number = 0;
  while (file >> key >> number) {
    if (key == word) return number;
    std::getline(file, rest);
  }
  return std::nullopt;
}

// Returns nothing if the file does not exist or contains "max".
Amount read_number(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? Amount(number) : std::nullopt;
}

Amount left_in(const fs::path& group) {
  const Amount limit = read_number(group / "memory.max");
  const Amount used = read_number(group / "memory.current");
  if (!limit || !used) return std::nullopt;
  const std::uint64_t idle = find_number(group / "memory.stat", "inactive_file").value_or(0);
  const std::uint64_t held = *used - std::min(*used, idle);
  return *limit - std::min(*limit, held);
}

// Returns the path of this process in the cgroup v2 hierarchy, from the line "0::/PATH".
std::string own_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return {};
}

}  // namespace

std::optional<std::uint64_t> memory_of_group(const fs::path& root, std::string_view group) {
  fs::path place = root;
  Amount left = left_in(place);
  for (const fs::path& part : fs::path(group)) {
    place /= part;
    left = least(left, left_in(place));
  }
  return left;
}

std::optional<std::uint64_t> available_memory() {
  Amount machine = find_number("/proc/meminfo", "MemAvailable:");
  if (machine) *machine *= 1024;
  return least(machine, memory_of_group("/sys/fs/cgroup", own_group()));
}

void give_memory_back() { malloc_trim(0); }

}  // namespace thinwire::base
