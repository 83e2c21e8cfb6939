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
  if (count > in.left() / sizeof(float)) throw WireError("the strategy's state is cut short");
  std::vector<float> values(static_cast<std::size_t>(count));
  const Bytes bytes = in.take(values.size() * sizeof(float));
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(values)).begin());
  return values;
}

inline void expect_version(std::uint32_t version, std::uint32_t expected, std::string_view what) {
  if (version == expected) return;
  throw WireError(
      fmt::format("the state of {} has version {}, this build reads {}", what, version, expected));
}

// Steps between looks at the norm of what is held back: two passes over memory each.
inline constexpr std::uint64_t kWatchEvery = 16;

// Returns the L2 norm.
inline double norm(Floats values) { return std::sqrt(kernel::squared_norm(values)); }

// A buffer of the state, which a checkpoint may have filled.
inline void prepare(std::vector<float>& values, std::size_t size, std::string_view what) {
  if (values.empty()) values.resize(size, 0.0f);
  if (values.size() == size) return;
  throw WireError(fmt::format("the checkpoint's {} has {} elements, the model needs {}", what,
                              values.size(), size));
}

}  // namespace thinwire::strategy
