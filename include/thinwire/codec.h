// How a vector becomes bytes, and what of it is held back: one interface, one word per code.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "thinwire/buffer.h"
#include "thinwire/registry.h"

namespace thinwire {

// A codec may lose nothing: what it does not send stays where it was, for a later message. Used by
// one thread; after the first call of a size nothing is allocated.
class Codec {
 public:
  virtual ~Codec() = default;

  // No message of numel elements is longer, whatever they are.
  virtual std::size_t max_bytes(std::size_t numel) const = 0;

  // Appends a message of what is to be sent now and leaves the rest in `acc`: for every element,
  // the decoded value plus what remains is, in float arithmetic, what was there before. What is
  // not finite is sent whole, and 0 remains.
  virtual void encode(MutFloats acc, std::uint64_t step, Payload& out) = 0;

  // Adds a message to `into`. WireError, before `into` is touched, for bytes that are not a message
  // of this step and size by this codec.
  virtual void decode_add(Bytes in, std::uint64_t step, MutFloats into) = 0;

  // Of one element that is sent, without its index.
  virtual unsigned value_bits() const noexcept = 0;
};

// The codecs of this build.
std::span<const Entry<Codec>> codecs();

// The codec of a spec such as "half" or "sparse:density=0.001". ConfigError if the name, a key or a
// value is not known, with the closest match and what is allowed.
std::unique_ptr<Codec> make_codec(std::string_view spec_text);

// Bits that any code needs on average for one of all sets of `count` indices below numel: log2 of
// their number.
double index_entropy_bits(std::size_t numel, std::size_t count);

}  // namespace thinwire
