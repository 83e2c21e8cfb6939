#include "strategy/letter.h"

#include <fmt/format.h>

#include <cstring>

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
  memory_.resize(kHeadBytes + numel * sizeof(float));
}

MutFloats Letter::model() noexcept {
  return {reinterpret_cast<float*>(memory_.data() + kHeadBytes),
          (memory_.size() - kHeadBytes) / sizeof(float)};
}
Floats Letter::model() const noexcept {
  return {reinterpret_cast<const float*>(memory_.data() + kHeadBytes),
          (memory_.size() - kHeadBytes) / sizeof(float)};
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
  const std::size_t expected = carries_model(kind) ? memory_.size() - kHeadBytes : 0;
  if (magic != kMagic || kind < Kind::push || kind > Kind::wake || reader.left() != expected) {
    throw WireError(
        fmt::format("{} bytes that are no letter of gossip between models of this size", received));
  }
  return {kind, number, carries_model(kind) ? model() : Floats()};
}

}  // namespace thinwire
