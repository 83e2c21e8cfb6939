#include "strategy/letter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codec/lattice.h"
#include "thinwire/bytes.h"

namespace thinwire {
namespace {

constexpr std::uint32_t kMagic = 0x4c475754;  // "TWGL"
constexpr std::uint16_t kVersion = 1;

struct Head {
  std::uint32_t magic = kMagic;
  std::uint16_t kind = 0;
  std::uint16_t version = 0;
  std::uint64_t number = 0;
};

bool carries_model(Letter::Kind kind) {
  return kind == Letter::Kind::push || kind == Letter::Kind::request || kind == Letter::Kind::reply;
}

}  // namespace

void Letter::reserve(std::size_t numel) {
  static_assert(sizeof(Head) == kHeadBytes);
  constexpr unsigned kMostBits = 8;
  numel_ = numel;
  // A coded block has a head, with which a single element is longer than its float.
  memory_.resize(kHeadBytes + std::max(numel * sizeof(float), lattice::bytes(numel, kMostBits)));
}

MutFloats Letter::model() noexcept {
  return {reinterpret_cast<float*>(memory_.data() + kHeadBytes), numel_};
}
Floats Letter::model() const noexcept {
  return {reinterpret_cast<const float*>(memory_.data() + kHeadBytes), numel_};
}

void Letter::write(Kind kind, std::uint64_t number, Floats model) {
  const Head head{kMagic, static_cast<std::uint16_t>(kind), kVersion, number};
  if (memory_.empty()) reserve(model.size());
  std::memcpy(memory_.data(), &head, sizeof head);
  if (!model.empty()) {
    std::memcpy(memory_.data() + kHeadBytes, model.data(), model.size_bytes());
  }
  used_ = kHeadBytes + model.size_bytes();
}

MutBytes Letter::write_coded(std::uint64_t number, std::size_t bytes) {
  write(Kind::coded_push, number);
  used_ = kHeadBytes + bytes;
  return MutBytes(memory_).subspan(kHeadBytes, bytes);
}

Letter::Contents Letter::read(std::size_t received) const {
  ByteReader reader(Bytes(memory_).first(received), "a letter of gossip");
  const auto magic = reader.get<std::uint32_t>();
  const auto kind = static_cast<Kind>(reader.get<std::uint16_t>());
  const auto version = reader.get<std::uint16_t>();
  const auto number = reader.get<std::uint64_t>();
  if (magic == kMagic && version != kVersion) {
    throw WireError(
        fmt::format("a letter of gossip of version {}, this program knows {}", version, kVersion));
  }
  const bool known = kind >= Kind::push && kind <= Kind::coded_push;
  const std::size_t expected = kind == Kind::coded_push ? reader.left()
                               : carries_model(kind)    ? numel_ * sizeof(float)
                                                        : 0;
  if (magic != kMagic || !known || reader.left() != expected) {
    throw WireError(
        fmt::format("{} bytes that are no letter of gossip between models of this size", received));
  }
  return {kind, number, carries_model(kind) ? model() : Floats(),
          kind == Kind::coded_push ? reader.take(expected) : Bytes()};
}

}  // namespace thinwire
