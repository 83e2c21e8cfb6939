#include "base/sha256.h"

#include <algorithm>
#include <bit>

namespace thinwire::base {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// SHA-256 is big-endian.
std::uint32_t load(const std::byte* at) noexcept {
  return std::to_integer<std::uint32_t>(at[0]) << 24 | std::to_integer<std::uint32_t>(at[1]) << 16 |
         std::to_integer<std::uint32_t>(at[2]) << 8 | std::to_integer<std::uint32_t>(at[3]);
}
void store(std::uint32_t value, std::byte* at) noexcept {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::byte>(value >> (24 - 8 * i));
}

}  // namespace

void Sha256::compress(const std::byte* block) noexcept {
  std::array<std::uint32_t, 64> w;
  for (std::size_t t = 0; t < 16; ++t) w[t] = load(block + 4 * t);
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t x = w[t - 15], y = w[t - 2];
    w[t] = w[t - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) + w[t - 7] +
           (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                              ((e & f) ^ (~e & g)) + kRound[t] + w[t];
    const std::uint32_t two =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one;
    d = c, c = b, b = a, a = one + two;
  }
  const std::array<std::uint32_t, 8> sum{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < sum.size(); ++i) state_[i] += sum[i];
}

void Sha256::add(Bytes data) noexcept {
  while (!data.empty()) {
    const std::size_t used = bytes_ % kBlock;
    const std::size_t count = std::min(kBlock - used, data.size());
    std::copy_n(data.begin(), count, pending_.begin() + static_cast<std::ptrdiff_t>(used));
    bytes_ += count;
    data = data.subspan(count);
    if (bytes_ % kBlock == 0) compress(pending_.data());
  }
}

// Padding: a one bit, zeros up to the last 8 bytes of a block, and the length in bits.
Digest Sha256::finish() noexcept {
  const std::uint64_t bits = 8 * bytes_;
  std::array<std::byte, kBlock + 8> padding{std::byte{0x80}};
  const std::size_t zeros = (2 * kBlock - 9 - bytes_ % kBlock) % kBlock;
  store(static_cast<std::uint32_t>(bits >> 32), padding.data() + 1 + zeros);
  store(static_cast<std::uint32_t>(bits), padding.data() + 5 + zeros);
  add(Bytes(padding).first(9 + zeros));
  Digest out;
  for (std::size_t i = 0; i < state_.size(); ++i) store(state_[i], out.data() + 4 * i);
  return out;
}

Digest hmac_sha256(Bytes key, Bytes message) noexcept {
  std::array<std::byte, 64> block{};
  if (key.size() > block.size()) {
    Sha256 shorter;
    shorter.add(key);
    const Digest digest = shorter.finish();
    std::copy(digest.begin(), digest.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  const auto hash = [&](std::byte pad, Bytes data) {
    std::array<std::byte, 64> padded = block;
    for (std::byte& byte : padded) byte ^= pad;
    Sha256 out;
    out.add(padded);
    out.add(data);
    return out.finish();
  };
  return hash(std::byte{0x5c}, hash(std::byte{0x36}, message));
}

bool equal_digests(const Digest& a, const Digest& b) noexcept {
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

}  // namespace thinwire::base
