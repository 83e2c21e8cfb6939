// Counts the allocations of a thread. allocations.cpp replaces the global operator new of the test
// program.
#pragma once

#include <cstdint>

namespace thinwire::test {

// Returns how many times this thread has called operator new.
std::uint64_t allocations() noexcept;

}  // namespace thinwire::test
