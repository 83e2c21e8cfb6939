// Sparse vectors as bytes: the gaps between indices are in a Rice code, the values are fp32, bf16
// or of 5 bits. docs/wire-format.md specifies every bit. All functions may be called from any thread.
#pragma once

#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::message {

enum class ValueCoding : std::uint8_t {
  bf16,
  fp32,
  int5,  // a sign and 4 bits, and a scale per 256 values: message/int5.h
};

// Says which vector and which step a message belongs to. A receiver refuses any other message.
struct SparseAddress {
  std::size_t numel = 0;  // length of the whole vector, at most 2^32
  std::uint64_t step = 0;
};

// Returns the bits that any code needs on average for one of all sets of `count` indices below
// numel: log2 of their number.
double index_entropy_bits(std::size_t numel, std::size_t count);

// Returns an upper bound of the length of a message with up to `count` of `numel` entries, which
// holds for any entries. Throws std::length_error if numel is above 2^32.
std::size_t sparse_max_bytes(ValueCoding coding, std::size_t numel, std::size_t count);

// Rounds values[i] to what a receiver will see. errors[i] becomes the difference, which is exact:
// the value before = the value after + the error. `errors` must be as long as `values`. With int5,
// values of 0 must be dropped before, and the values must be encoded together and in this order.
void round_to_wire(ValueCoding coding, MutFloats values, MutFloats errors);

// Appends a message to `out`. The values must have gone through round_to_wire. The message holds
// all numel values without indices where that is shorter. Throws std::invalid_argument if the
// entries are not a sparse vector of address.numel elements, and std::length_error if numel is
// above 2^32.
void encode_sparse(const Sparse& entries, ValueCoding coding, const SparseAddress& address,
                   Payload& out);

// Reads a message into `out`, after all checks. Throws WireError, which says what is wrong, and
// leaves `out` as it was, if `in` is not a message of this address and coding with at most
// max_count entries (in the form without indices: values that are not 0).
void decode_sparse(Bytes in, ValueCoding coding, const SparseAddress& address,
                   std::size_t max_count, Sparse& out);

}  // namespace thinwire::message
