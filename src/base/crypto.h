// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104) by libcrypto. The rendezvous uses them to check
// that a worker knows the token of its job.
#pragma once

#include <array>

#include "thinwire/types.h"

namespace thinwire::base {

using Digest = std::array<std::byte, 32>;

// Both functions may be called from any thread. They throw std::runtime_error if libcrypto fails,
// for example because its configuration disables SHA-256.
Digest sha256(Bytes data);
Digest hmac_sha256(Bytes key, Bytes message);

// Compares two digests. The time does not depend on their contents, so that an attacker who
// measures it learns nothing about the expected digest.
bool equal_digests(const Digest& a, const Digest& b) noexcept;

}  // namespace thinwire::base
