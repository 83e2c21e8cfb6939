// Views of memory. Nothing here owns model memory; a span is valid for the call it is passed to.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace thinwire {

using Bytes = std::span<const std::byte>;
using MutBytes = std::span<std::byte>;
using Floats = std::span<const float>;
using MutFloats = std::span<float>;
using Payload = std::vector<std::byte>;  // encoded bytes; its capacity is reused from step to step

// Durations and points in time (counted from an arbitrary start) are both seconds as a double:
// simulated time has no system clock to convert to.
using Seconds = std::chrono::duration<double>;

}  // namespace thinwire
