// The checksum of a message. It follows the magic number and covers all bytes after itself.
#pragma once

#include <cstring>

#include "base/hash.h"

namespace thinwire::message {

inline constexpr std::size_t kChecksumAt = 4;
inline constexpr std::size_t kChecksummedFrom = kChecksumAt + sizeof(std::uint32_t);

// 32 bits of the hash are enough against accidents: one of 4 billion damaged messages passes.
inline std::uint32_t checksum(Bytes message) {
  return static_cast<std::uint32_t>(base::hash64(message.subspan(kChecksummedFrom)));
}

inline void write_checksum(MutBytes message) {
  const std::uint32_t sum = checksum(message);
  std::memcpy(message.data() + kChecksumAt, &sum, sizeof sum);
}

}  // namespace thinwire::message
