// The plain types of the public API: views of memory, the buffers and the layout of a model, sparse
// vectors, a network, and the sink of log messages. Nothing here owns model memory; a span is valid
// for the call to which it is passed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/export.h"

namespace thinwire {

using Bytes = std::span<const std::byte>;
using MutBytes = std::span<std::byte>;
using Floats = std::span<const float>;
using MutFloats = std::span<float>;
using Payload = std::vector<std::byte>;  // encoded bytes; its capacity is reused in later steps

// Durations and points in time (counted from an arbitrary start) are both seconds as a double:
// simulated time has no system clock to convert to.
using Seconds = std::chrono::duration<double>;

// Stands for no rank, or for one that is not known, in results and errors.
inline constexpr int kNoRank = -1;

// The two 16-bit floating-point formats, as bits on the wire.
struct Bf16 {  // 8 bits of exponent, 7 of fraction: the range of a float, 2 to 3 digits
  std::uint16_t bits = 0;
};
struct Fp16 {  // 5 bits of exponent, 10 of fraction: up to 65504, 3 to 4 digits
  std::uint16_t bits = 0;
};

// The position of one tensor in the flat buffers of a model.
struct TensorSlot {
  std::string name;
  std::size_t offset = 0;  // of its first element in the flat buffers
  std::vector<std::size_t> shape;

  // Returns the number of elements, which is the product of the extents.
  std::size_t numel() const noexcept {
    std::size_t out = 1;
    for (const std::size_t extent : shape) out *= extent;
    return out;
  }
};

// The tensors in the order of their offsets, without gaps; numel is the length of the buffers.
struct Layout {
  std::vector<TensorSlot> tensors;
  std::size_t numel = 0;
};

// A model as two flat buffers. The caller owns the memory; a view is valid for one call. A span
// that a call does not use may be empty; otherwise its length is layout.numel.
struct ModelView {
  MutFloats params;
  MutFloats grads;
  const Layout& layout;
};

// Some entries of a long vector. Indices strictly increase; the caller of push_back() sees to it.
// It owns its memory. One thread at a time may change it.
struct Sparse {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;  // of the same length

  // Returns the number of entries. Several threads may call it while none changes the vector.
  std::size_t size() const noexcept { return indices.size(); }
  // Removes all entries and keeps the memory for later ones.
  void clear() noexcept { indices.clear(), values.clear(); }
  // Makes room for `entries` entries in all. Throws std::bad_alloc or std::length_error.
  void reserve(std::size_t entries) { indices.reserve(entries), values.reserve(entries); }
  // Appends an entry, whose index must be larger than that of the last one. Throws std::bad_alloc.
  void push_back(std::uint32_t index, float value) {
    indices.push_back(index), values.push_back(value);
  }
  bool operator==(const Sparse&) const = default;
};

// A network as a user describes it. Each worker has its own full-duplex link of this bandwidth;
// `latency` is the one-way time of an empty message between two workers. Any thread may call its
// functions, as long as no other thread changes the object.
struct TW_EXPORT Network {
  double bits_per_second = 0;  // 0: unlimited
  Seconds latency{0};

  // Parses "BANDWIDTH" or "BANDWIDTH,LATENCY": 10mbit, 1gbit, 2.5gbit, unlimited; 50us, 0.2ms,
  // 0.1s. Throws ConfigError, with an example in its text, for any other text.
  static Network parse(std::string_view text);
  // Returns text that parse() reads back as the same network. Throws std::bad_alloc only.
  std::string str() const;

  // Returns the time that a link takes to carry the bytes, without latency.
  Seconds transfer_time(std::size_t bytes) const noexcept {
    return Seconds(bits_per_second > 0 ? 8.0 * static_cast<double>(bytes) / bits_per_second : 0.0);
  }
};

// A key that a part (a strategy, a fault) accepts in its spec.
struct SpecKey {
  std::string name;
  std::string fallback;  // the value if the key is not given
  std::string allowed;   // "fp32, bf16, fp16" or "0 ... 1"
};

// How urgent a log message is.
enum class LogLevel { debug, info, warning, error };

// Receives the log messages of the library, which never prints. The owner of a session passes it
// in. The library may call it from several threads at once. An empty sink discards messages.
using LogSink = std::function<void(LogLevel, std::string_view)>;

}  // namespace thinwire
