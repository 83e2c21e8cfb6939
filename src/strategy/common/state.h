// The buffers that a strategy keeps between steps, as a checkpoint holds them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "kernel/orthonormal.h"
#include "thinwire/error.h"

namespace thinwire::strategy {

inline void put_floats(base::ByteWriter& out, Floats values) {
  out.put<std::uint64_t>(values.size());
  out.put(std::as_bytes(values));
}

inline std::vector<float> get_floats(base::ByteReader& in) {
  const auto count = in.get<std::uint64_t>();
  if (count > in.left() / sizeof(float)) {
    throw WireError(
        fmt::format("state of a strategy: a vector is truncated ({} elements, {} bytes left)",
                    count, in.left()));
  }
  std::vector<float> values(static_cast<std::size_t>(count));
  const Bytes bytes = in.take(values.size() * sizeof(float));
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(values)).begin());
  return values;
}

// Reads the version, with which a state starts. Throws WireError if it is not the expected one.
inline void expect_version(base::ByteReader& in, std::uint32_t expected,
                           std::string_view strategy) {
  const auto version = in.get<std::uint32_t>();
  if (version == expected) return;
  throw WireError(fmt::format("{}: its state has an unsupported version ({}; this build reads {})",
                              strategy, version, expected));
}

// The norm of a residual is measured every this many steps, because it takes two passes over
// memory.
inline constexpr std::uint64_t kWatchEvery = 16;

// Returns the L2 norm.
inline double norm(Floats values) { return std::sqrt(kernel::squared_norm(values)); }

// Gives a buffer of the state its size, unless a checkpoint has filled it. Throws WireError if the
// checkpoint's buffer has another size.
inline void prepare(std::vector<float>& values, std::size_t size, std::string_view what) {
  if (values.empty()) values.resize(size, 0.0f);
  if (values.size() == size) return;
  throw WireError(fmt::format(
      "checkpoint: the {} does not fit the model ({} elements, {} needed); resume with the model "
      "and the options that saved it",
      what, values.size(), size));
}

}  // namespace thinwire::strategy
