// SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104), for the proof that a worker knows its job's
// token.
#pragma once

#include <array>
#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::base {

using Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  void add(Bytes data) noexcept;
  // Once, at the end.
  Digest finish() noexcept;

 private:
  static constexpr std::size_t kBlock = 64;
  void compress(const std::byte* block) noexcept;

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlock> pending_{};
  std::uint64_t bytes_ = 0;  // added so far
};

Digest hmac_sha256(Bytes key, Bytes message) noexcept;

// In a time that does not tell where two digests differ.
bool equal_digests(const Digest& a, const Digest& b) noexcept;

}  // namespace thinwire::base
