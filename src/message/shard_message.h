// The messages between workers and the server of a shard, which is a range of the vector: each
// holds some entries of the shard, in the shortest of four forms. docs/wire-format.md specifies
// every bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "message/sparse_message.h"

namespace thinwire::message {

// How a message says which elements its values belong to.
enum class ShardForm : std::uint8_t {
  rice,      // gaps between indices
  bitmap,    // one bit per element of the shard
  relative,  // one bit per index that both sides know, and gaps between the other indices
  dense,     // no indices: every element has a value
};
inline constexpr std::size_t kShardForms = 4;

enum class ShardKind : std::uint8_t { push, aggregate };

// Says which shard and which step a message belongs to. A receiver refuses any other message.
struct ShardAddress {
  ShardKind kind = ShardKind::push;
  std::uint32_t shard = 0;
  std::size_t numel = 0;  // of the shard, at most 2^32; indices count from its begin
  std::uint64_t step = 0;
  ValueCoding values = ValueCoding::bf16;
};

// Returns an upper bound of the length of a message with up to `max_entries` entries.
std::size_t shard_max_bytes(const ShardAddress& address, std::size_t max_entries);

// Writes and reads messages. It keeps its scratch memory between calls, and may be used by one
// thread at a time.
class ShardCodec {
 public:
  // Appends a message to `out` and returns its form. No value may be 0, and the values must have
  // gone through round_to_wire. `known` are indices, strictly increasing, that the receiver passes
  // to decode as well. Throws std::invalid_argument if the entries are not a sparse vector of the
  // shard.
  ShardForm encode(const Sparse& entries, const ShardAddress& address,
                   std::span<const std::uint32_t> known, Payload& out);

  // Reads a message into `out`, after all checks. Throws WireError, which says what is wrong, and
  // leaves `out` as it was, if `in` is not a message of this address with at most `max_entries`
  // entries that was encoded with the same `known`.
  void decode(Bytes in, const ShardAddress& address, std::size_t max_entries,
              std::span<const std::uint32_t> known, Sparse& out);

 private:
  std::vector<std::uint32_t> others_;  // the indices of a message that are not in `known`
};

}  // namespace thinwire::message
