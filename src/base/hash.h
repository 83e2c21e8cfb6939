// A hash by which ranks compare their replicas without sending them.
#pragma once

#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::base {

// Returns the 64-bit XXH3 hash, which is the same on every machine. It detects accidents; it does
// not protect against an attacker, who can construct data with a given hash.
std::uint64_t hash64(Bytes data) noexcept;

}  // namespace thinwire::base
