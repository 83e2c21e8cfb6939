#include "message/shard_message.h"

#include <algorithm>
#include <bit>

#include "fuzz/target.h"
#include "message/checksum.h"

namespace thinwire::fuzz {
namespace {

using Indices = std::vector<std::uint32_t>;

Indices draw_known(Choices& choices, std::size_t numel) {
  Indices known;
  std::size_t index = 0;
  for (std::size_t left = choices.below(100); left > 0; --left) {
    index += choices.take<std::uint8_t>();
    if (index >= numel) break;
    known.push_back(static_cast<std::uint32_t>(index++));
  }
  return known;
}

bool are_indices(const Indices& indices, std::size_t most, std::size_t numel) {
  const auto falls = [](std::uint32_t a, std::uint32_t b) { return a >= b; };
  return indices.size() <= most && std::ranges::adjacent_find(indices, falls) == indices.end() &&
         (indices.empty() || indices.back() < numel);
}

bool same(const Sparse& a, const Sparse& b) {
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  return a.indices == b.indices && std::ranges::equal(a.values, b.values, {}, bits, bits);
}

}  // namespace

// The target writes the right checksum. A message that is refused must change nothing; one that is
// accepted must be within the limits, and the same after another encode and decode.
void shard_message(Bytes input) {
  Choices choices(input);
  message::ShardAddress address;
  address.kind = choices.below(2) == 0 ? message::ShardKind::push : message::ShardKind::aggregate;
  address.values = choices.below(2) == 0 ? message::ValueCoding::bf16 : message::ValueCoding::fp32;
  address.numel = choices.below(4096);
  address.shard = choices.take<std::uint8_t>();
  address.step = choices.take<std::uint8_t>();
  const std::size_t most = choices.take<std::uint16_t>();
  const Indices known = draw_known(choices, address.numel);
  Payload message(choices.rest().begin(), choices.rest().end());
  if (message.size() >= message::kChecksummedFrom) message::write_checksum(message);

  message::ShardCodec codec;
  Sparse out;
  out.push_back(7, 0.5f);
  const Sparse before = out;
  bool accepted = false;
  accept_or_refuse<WireError>([&] {
    codec.decode(message, address, most, known, out);
    accepted = true;
  });
  if (!accepted) return demand(same(out, before));
  demand(out.indices.size() == out.values.size());
  demand(are_indices(out.indices, most, address.numel));
  demand(std::ranges::count(out.values, 0.0f) == 0);

  Payload again;
  Sparse back;
  codec.encode(out, address, known, again);
  demand(again.size() <= message::shard_max_bytes(address, most));
  codec.decode(again, address, most, known, back);
  demand(same(out, back));
}

}  // namespace thinwire::fuzz
