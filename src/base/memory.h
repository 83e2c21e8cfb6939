// How much memory is available. Readers of files and messages ask before they allocate memory whose
// size the input decides.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace thinwire::base {

// Returns how many bytes this process can still allocate: the smaller of what the machine has left
// and what the control group of this process has left. Returns nothing if both are unknown.
std::optional<std::uint64_t> available_memory();

// Returns how many bytes are left below the limits of a control group (cgroup v2) and of its
// ancestors; nothing if there is no limit. `group` is its path below `root`, the mount point of the
// hierarchy. Inactive file cache counts as left, because the kernel can reclaim it.
std::optional<std::uint64_t> memory_of_group(const std::filesystem::path& root,
                                             std::string_view group);

// Gives memory that was freed, but that malloc keeps for later allocations, back to the system, so
// that available_memory() counts it.
void give_memory_back();

}  // namespace thinwire::base
