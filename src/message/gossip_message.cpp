#include "message/gossip_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "message/lattice.h"

namespace thinwire::message {
namespace {

constexpr std::uint32_t kMagic = 0x4c475754;  // "TWGL"
constexpr std::uint16_t kVersion = 1;

struct Head {
  std::uint32_t magic = kMagic;
  std::uint16_t kind = 0;
  std::uint16_t version = 0;
  std::uint64_t number = 0;
};

bool carries_model(GossipMessage::Kind kind) {
  return kind == GossipMessage::Kind::push || kind == GossipMessage::Kind::request ||
         kind == GossipMessage::Kind::reply;
}

}  // namespace

void GossipMessage::reserve(std::size_t numel) {
  static_assert(sizeof(Head) == kHeadBytes);
  constexpr unsigned kMostBits = 8;
  numel_ = numel;
  // A coded block has a header, so a block of one element is longer than a float.
  memory_.resize(kHeadBytes + std::max(numel * sizeof(float), lattice::bytes(numel, kMostBits)));
}

MutFloats GossipMessage::model() noexcept {
  return {reinterpret_cast<float*>(memory_.data() + kHeadBytes), numel_};
}
Floats GossipMessage::model() const noexcept {
  return {reinterpret_cast<const float*>(memory_.data() + kHeadBytes), numel_};
}

void GossipMessage::write(Kind kind, std::uint64_t number, Floats model) {
  const Head head{kMagic, static_cast<std::uint16_t>(kind), kVersion, number};
  if (memory_.empty()) reserve(model.size());
  std::memcpy(memory_.data(), &head, sizeof head);
  if (!model.empty()) {
    std::memcpy(memory_.data() + kHeadBytes, model.data(), model.size_bytes());
  }
  used_ = kHeadBytes + model.size_bytes();
}

MutBytes GossipMessage::write_coded(std::uint64_t number, std::size_t bytes) {
  write(Kind::coded_push, number);
  used_ = kHeadBytes + bytes;
  return MutBytes(memory_).subspan(kHeadBytes, bytes);
}

GossipMessage::Contents GossipMessage::read(std::size_t received) const {
  base::ByteReader reader(Bytes(memory_).first(received), "gossip message");
  const auto magic = reader.get<std::uint32_t>();
  const auto kind = static_cast<Kind>(reader.get<std::uint16_t>());
  const auto version = reader.get<std::uint16_t>();
  const auto number = reader.get<std::uint64_t>();
  if (magic == kMagic && version != kVersion) {
    throw WireError(fmt::format("gossip message: unsupported version ({}; this program has {})",
                                version, kVersion));
  }
  const bool known = kind >= Kind::push && kind <= Kind::coded_push;
  const std::size_t expected = kind == Kind::coded_push ? reader.left()
                               : carries_model(kind)    ? numel_ * sizeof(float)
                                                        : 0;
  if (magic != kMagic || !known || reader.left() != expected) {
    throw WireError(
        fmt::format("gossip message: wrong magic number, kind or model size ({} bytes)", received));
  }
  return {kind, number, carries_model(kind) ? model() : Floats(),
          kind == Kind::coded_push ? reader.take(expected) : Bytes()};
}

}  // namespace thinwire::message
