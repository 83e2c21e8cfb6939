// A fingerprint of bytes, to compare replicas without sending them.
#pragma once

#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::base {

// XXH3, 64 bits: the same on every machine. Not for protection against intent.
std::uint64_t hash64(Bytes data) noexcept;

}  // namespace thinwire::base
