// Sparse vectors as bytes: gaps between indices in a Rice code or raw, values as fp32 or bf16.
// docs/wire-format.md specifies every bit.
#pragma once

#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::message {

enum class IndexCoding : std::uint8_t { rice, raw };
enum class ValueCoding : std::uint8_t { bf16, fp32 };

struct SparseFormat {
  IndexCoding index = IndexCoding::rice;
  ValueCoding values = ValueCoding::bf16;
};

// What a message belongs to; a receiver refuses one that belongs elsewhere.
struct SparseAddress {
  std::size_t numel = 0;  // length of the whole vector, at most 2^32
  std::uint64_t step = 0;
};

// Returns the bits that any code needs on average for one of all sets of `count` indices below
// numel: log2 of their number.
double index_entropy_bits(std::size_t numel, std::size_t count);

// No message with up to `count` of `numel` entries is longer, whatever the entries.
std::size_t sparse_max_bytes(const SparseFormat& format, std::size_t numel, std::size_t count);

// values[i] becomes what a receiver will see and errors[i] what it will miss: exactly the
// difference.
void round_to_wire(ValueCoding coding, MutFloats values, MutFloats errors);

// Appends a message. The values must have gone through round_to_wire. Falls back to all numel
// values without indices where that is shorter.
void encode_sparse(const Sparse& entries, const SparseFormat& format, const SparseAddress& address,
                   Payload& out);

// Checks everything before it writes to `out`. WireError, naming what is wrong, for bytes that are
// not a message of this address with at most max_count entries (of a dense one: entries that are
// not 0) in this format.
void decode_sparse(Bytes in, const SparseFormat& format, const SparseAddress& address,
                   std::size_t max_count, Sparse& out);

}  // namespace thinwire::message
