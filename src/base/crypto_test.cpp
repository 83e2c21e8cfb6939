#include "base/crypto.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace thinwire::base {
namespace {

Bytes bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string hex(const Digest& digest) {
  std::string out;
  for (const std::byte byte : digest) out += fmt::format("{:02x}", std::to_integer<int>(byte));
  return out;
}

std::string hashed(const std::string& text) { return hex(sha256(bytes(text))); }

// HMAC by its definition in RFC 2104, over sha256().
std::string hmac_by_definition(std::string key, const std::string& text) {
  constexpr std::size_t kBlock = 64;
  const auto append = [](std::string out, const Digest& digest) {
    for (const std::byte byte : digest) out.push_back(std::to_integer<char>(byte));
    return out;
  };
  if (key.size() > kBlock) key = append("", sha256(bytes(key)));
  key.resize(kBlock, '\0');
  const auto padded = [&](char pad) {
    std::string out = key;
    for (char& c : out) c = static_cast<char>(c ^ pad);
    return out;
  };
  return hashed(append(padded('\x5c'), sha256(bytes(padded('\x36') + text))));
}

TEST(Sha256, PublishedVectors) {  // FIPS 180-4 and NIST's examples
  EXPECT_EQ(hashed(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hashed("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hashed("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hashed(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(HmacSha256, PublishedVectors) {  // RFC 4231, test cases 1, 2, 3, 6 and 7
  const auto hmac = [](const std::string& key, const std::string& text) {
    return hex(hmac_sha256(bytes(key), bytes(text)));
  };
  EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(
      hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hmac(std::string(131, '\xaa'),
                 "This is a test using a larger than block-size key and a larger than block-size "
                 "data. The key needs to be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

RC_GTEST_PROP(HmacSha256, EqualsItsDefinition, (std::string key, const std::string& text)) {
  key.resize(*rc::gen::inRange<std::size_t>(0, 200), 'k');  // shorter and longer than a block
  RC_ASSERT(hex(hmac_sha256(bytes(key), bytes(text))) == hmac_by_definition(key, text));
}

TEST(EqualDigests, DetectsEveryFlippedBit) {
  const Digest digest = hmac_sha256(bytes("key"), bytes("text"));
  EXPECT_TRUE(equal_digests(digest, digest));
  for (std::size_t bit = 0; bit < 8 * digest.size(); ++bit) {
    Digest other = digest;
    other[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_FALSE(equal_digests(digest, other)) << bit;
  }
}

}  // namespace
}  // namespace thinwire::base
