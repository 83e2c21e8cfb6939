// How workers prove to each other that they know the token of their job without sending it: each
// sends a nonce, and answers the nonce of the other by an HMAC with the token as its key.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "base/bytes.h"
#include "base/crypto.h"

namespace thinwire::rendezvous {

using Nonce = std::array<std::byte, 32>;

// Reads a nonce or a digest from a message.
template <class Array>
Array take_array(base::ByteReader& reader) {
  Array out;
  const Bytes bytes = reader.take(out.size());
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return out;
}

// Returns a random number from the kernel, which practically never repeats.
Nonce make_nonce();

// The side that proves. A proof of one role is invalid for another, so that an attacker cannot send
// a side its own proof back.
enum class Role : std::uint8_t { master = 1, rank = 2, pair = 3 };

// Returns the proof over all parts of the conversation so far, beginning with the nonces of both
// sides. Only the last part may vary in length.
base::Digest prove(std::string_view token, Role role, std::initializer_list<Bytes> said);

}  // namespace thinwire::rendezvous
