#include "base/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <stdexcept>
#include <string>

namespace thinwire::base {
namespace {

unsigned char* raw(std::byte* bytes) noexcept { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes);
}

void check(bool succeeded, unsigned length, const char* operation) {
  if (succeeded && length == sizeof(Digest)) return;
  throw std::runtime_error(std::string("libcrypto: ") + operation + " failed");
}

}  // namespace

Digest sha256(Bytes data) {
  Digest out{};
  unsigned length = 0;
  const int succeeded =
      EVP_Digest(data.data(), data.size(), raw(out.data()), &length, EVP_sha256(), nullptr);
  check(succeeded == 1, length, "SHA-256");
  return out;
}

Digest hmac_sha256(Bytes key, Bytes message) {
  Digest out{};
  unsigned length = 0;
  const unsigned char* succeeded =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), raw(message.data()),
           message.size(), raw(out.data()), &length);
  check(succeeded != nullptr, length, "HMAC-SHA-256");
  return out;
}

bool equal_digests(const Digest& a, const Digest& b) noexcept {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace thinwire::base
