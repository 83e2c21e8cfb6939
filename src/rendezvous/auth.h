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

// From the kernel's generator: never the same twice.
Nonce make_nonce();

// Who proves; a proof of one role is none of another, so that nobody can be made to give the proof
// that is asked of somebody else.
enum class Role : std::uint8_t { master = 1, rank = 2, pair = 3 };

// Over all that was said, nonces of both sides first; only the last part may vary in length.
base::Digest prove(std::string_view token, Role role, std::initializer_list<Bytes> said);

}  // namespace thinwire::rendezvous
