// The alpha-beta model that picks algorithms and chunk sizes; docs/algorithms.md explains it.
// Everything here depends on sizes alone, so that all ranks decide alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/collective.h"

namespace thinwire::collective {

// The latency alpha, 100 us. The unit of time in this file is the time of one byte on a 1 Gbit/s
// link.
inline constexpr std::uint64_t kLatency = 12'500;

inline constexpr std::size_t kSmallestChunk = std::size_t{128} << 10;
inline constexpr std::size_t kLargestChunk = std::size_t{512} << 10;

// Returns the number of rounds of a binomial tree or a dissemination among `size` ranks.
int log2_ceil(int size) noexcept;

// Returns in how many chunks a step of the ring or of the doubling sends its bytes.
std::size_t chunk_count(std::size_t bytes) noexcept;
// Returns in how many chunks a broadcast sends its bytes along the chain.
std::size_t chain_chunks(std::size_t bytes, int size) noexcept;

// Return the expected time of an algorithm, in the unit of kLatency.
std::uint64_t ring_time(std::size_t share_bytes, int steps) noexcept;
std::uint64_t doubling_time(std::size_t bytes, int size) noexcept;
std::uint64_t binomial_time(std::size_t bytes, int size) noexcept;
std::uint64_t chain_time(std::size_t bytes, int size) noexcept;

// Return the cheaper route of an all-reduce and of a reduce-scatter, or `route` if it is not
// automatic.
Route allreduce_route(Route route, std::size_t bytes, int size) noexcept;
Route reduce_scatter_route(std::size_t bytes, int size) noexcept;

}  // namespace thinwire::collective
