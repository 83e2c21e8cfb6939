#include "rendezvous/auth.h"

#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace thinwire::rendezvous {

Nonce make_nonce() {
  Nonce nonce;
  // Requests of up to 256 bytes are never answered in part, and a signal can interrupt the call
  // only during boot.
  while (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return nonce;
}

base::Digest prove(std::string_view token, Role role, std::initializer_list<Bytes> said) {
  constexpr std::string_view kPurpose = "thinwire join 2";
  Payload message;
  base::ByteWriter writer(message);
  writer.put(std::as_bytes(std::span(kPurpose)));
  writer.put(static_cast<std::uint8_t>(role));
  for (const Bytes part : said) writer.put(part);
  return base::hmac_sha256(std::as_bytes(std::span(token)), message);
}

}  // namespace thinwire::rendezvous
