// Refuses what does not fit into memory before the kernel does it less politely.
#pragma once

#include <cstdint>
#include <optional>

namespace thinwire::cli {

// What programs may still take, in bytes; none if the kernel does not say.
std::optional<std::uint64_t> available_memory();

}  // namespace thinwire::cli
