// What passes between workers and the server of a shard, a range of the vector: some of its
// entries, and a list of indices that the sender proposes for the next step. Each message has the
// shortest of four forms. docs/wire-format.md specifies every bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "message/sparse_message.h"

namespace thinwire::message {

// How a message tells which elements its values belong to.
enum class ShardForm : std::uint8_t {
  rice,      // gaps between indices
  bitmap,    // one bit per element of the shard
  relative,  // one bit per index that both sides know, and gaps between the others
  dense,     // not at all: every element has a value
};
inline constexpr std::size_t kShardForms = 4;

enum class ShardKind : std::uint8_t { push, aggregate };

// What a message belongs to; a receiver refuses one that belongs elsewhere.
struct ShardAddress {
  ShardKind kind = ShardKind::push;
  std::uint32_t shard = 0;
  std::size_t numel = 0;  // of the shard, at most 2^32; indices count from its begin
  std::uint64_t step = 0;
  ValueCoding values = ValueCoding::bf16;
};

struct ShardContents {
  Sparse entries;                        // no value is 0
  std::vector<std::uint32_t> proposals;  // strictly increasing; usually none
};

// Most of what a receiver accepts.
struct ShardLimits {
  std::size_t entries = 0, proposals = 0;
};

// No message within the limits is longer.
std::size_t shard_max_bytes(const ShardAddress& address, const ShardLimits& limits);

// Writes and reads messages. Used by one thread; keeps its scratch memory.
class ShardCodec {
 public:
  // Appends a message and tells its form. `known` are indices, strictly increasing, that the
  // receiver will decode with as well. Values must have gone through round_to_wire.
  ShardForm encode(const ShardContents& contents, const ShardAddress& address,
                   std::span<const std::uint32_t> known, Payload& out);

  // Checks everything before it writes to `out`. WireError, naming what is wrong, for bytes that
  // are not a message of this address within the limits.
  void decode(Bytes in, const ShardAddress& address, const ShardLimits& limits,
              std::span<const std::uint32_t> known, ShardContents& out);

 private:
  std::vector<std::uint32_t> others_;  // indices of a message that are not among the known
};

}  // namespace thinwire::message
