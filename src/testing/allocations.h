// Counts what a thread allocates: this file replaces the global operator new of the test program.
#pragma once

#include <cstdint>

namespace thinwire::test {

// Calls of operator new by this thread so far.
std::uint64_t allocations() noexcept;

}  // namespace thinwire::test
