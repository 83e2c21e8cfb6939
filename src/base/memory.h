// How much memory there is, to be asked before what foreign bytes claim to need is allocated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace thinwire::base {

// What programs may still take, in bytes: what the machine has left, or, if that is less, the
// control group of this process. None if the kernel says neither.
std::optional<std::uint64_t> available_memory();

// What is left of the limits of a control group (cgroup v2) and of those that hold it; none if
// there is no limit. `group` is its path below `root`, where the tree is mounted. The cache of
// files that nobody uses at the moment counts as left.
std::optional<std::uint64_t> memory_of_group(const std::filesystem::path& root,
                                             std::string_view group);

// Returns memory that was freed, but is kept for the next use, to the system, where it counts as
// available.
void give_memory_back();

}  // namespace thinwire::base
