// How workers prove to each other that they know the token of their job, without saying it: each
// sends a nonce, and answers the other's by an HMAC that only the token makes possible.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "base/bytes.h"
#include "base/crypto.h"

namespace thinwire::rendezvous {

using Nonce = std::array<std::byte, 32>;

// A nonce or a digest from a message.
template <class Array>
Array take_array(base::ByteReader& reader) {
  Array out;
  const Bytes bytes = reader.take(out.size());
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return out;
}

// Returns a random number from the kernel, which is never the same twice.
Nonce make_nonce();

// The side that proves. A proof of one role is invalid for another, so that no side can be made to
// give the proof that the other one has to give.
enum class Role : std::uint8_t { master = 1, rank = 2, pair = 3 };

// Returns the proof over all parts of the conversation, the nonces of both sides first. Only the
// last part may vary in length.
base::Digest prove(std::string_view token, Role role, std::initializer_list<Bytes> said);

}  // namespace thinwire::rendezvous
