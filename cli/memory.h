// Refuses what does not fit into memory before the kernel does it less politely.
#pragma once

#include <cstdint>
#include <optional>

namespace thinwire::cli {

// What programs may still take, in bytes; none if the kernel does not say.
std::optional<std::uint64_t> available_memory();

// What was freed but is kept for the next use returns to the system, where it counts as available.
void give_memory_back();

}  // namespace thinwire::cli
