// The checksum of a message, which stands behind its magic number and covers all that follows.
#pragma once

#include <cstring>

#include "thinwire/hash.h"

namespace thinwire {

inline constexpr std::size_t kChecksumAt = 4;
inline constexpr std::size_t kSealedFrom = kChecksumAt + sizeof(std::uint32_t);

// Half of the hash is enough against accidents: of 4 billion damaged messages one passes.
inline std::uint32_t checksum(Bytes message) {
  return static_cast<std::uint32_t>(hash64(message.subspan(kSealedFrom)));
}

inline void seal(MutBytes message) {
  const std::uint32_t sum = checksum(message);
  std::memcpy(message.data() + kChecksumAt, &sum, sizeof sum);
}

}  // namespace thinwire
