// All elements of a vector as bytes, with a head that says whose they are. docs/wire-format.md
// specifies every bit.
#pragma once

#include <cstdint>

#include "thinwire/buffer.h"

namespace thinwire {

enum class DenseCoding : std::uint8_t { fp32, bf16, fp16 };

constexpr std::size_t width(DenseCoding coding) { return coding == DenseCoding::fp32 ? 4 : 2; }

// What a message holds; a receiver refuses one that holds something else.
struct DenseContents {
  DenseCoding coding = DenseCoding::fp32;
  std::uint64_t step = 0;
  std::uint64_t numel = 0;
};

// Of the whole message. std::length_error if no memory could hold it.
std::size_t dense_bytes(DenseCoding coding, std::size_t numel);

// Appends the head and room for the elements, which is returned: at any address, so it is written
// with memcpy. It is valid until `out` changes.
MutBytes open_dense(const DenseContents& contents, Payload& out);
// The elements are there: completes the head of the message, which ends with `elements`.
void seal_dense(MutBytes elements);

// The elements of a message. WireError, naming what is wrong, for bytes that are not one with these
// contents.
Bytes read_dense(Bytes in, const DenseContents& contents);

}  // namespace thinwire
