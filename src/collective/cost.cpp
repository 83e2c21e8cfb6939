#include "collective/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "collective/butterfly.h"

namespace thinwire::collective {
namespace {

std::size_t parts(std::size_t bytes, std::size_t chunk) noexcept {
  return std::max<std::size_t>(1, (bytes + chunk - 1) / chunk);
}

// Returns the time of steps of equal size in which a chunk can be sent as soon as the same chunk of
// the previous step has arrived. Either the wire is always busy, or it waits for the first chunk of
// each step.
std::uint64_t pipelined(std::uint64_t steps, std::uint64_t bytes, std::uint64_t chunks) noexcept {
  return (steps - 1) * std::max(bytes, kLatency + bytes / chunks) + bytes + kLatency;
}

// If both take the same time, the ring is better, because it adds half as many numbers.
Route cheaper(std::size_t bytes, int size, int ring_steps) noexcept {
  const std::uint64_t ring = ring_time(bytes / static_cast<std::size_t>(size), ring_steps);
  return doubling_time(bytes, size) < ring ? Route::doubling : Route::ring;
}

}  // namespace

int log2_ceil(int size) noexcept {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(size) - 1));
}

std::size_t chunk_count(std::size_t bytes) noexcept {
  return parts(bytes, std::clamp(bytes / 4, kSmallestChunk, kLargestChunk));
}

std::size_t chain_chunks(std::size_t bytes, int size) noexcept {
  // This chunk size minimizes chain_time().
  const double hops = std::max(1, size - 2);
  const double best = std::sqrt(static_cast<double>(bytes) * static_cast<double>(kLatency) / hops);
  return parts(bytes,
               std::clamp(static_cast<std::size_t>(best), kSmallestChunk / 8, kLargestChunk));
}

std::uint64_t ring_time(std::size_t share_bytes, int steps) noexcept {
  return pipelined(static_cast<std::uint64_t>(steps), share_bytes, chunk_count(share_bytes));
}

std::uint64_t doubling_time(std::size_t bytes, int size) noexcept {
  const auto rounds = static_cast<std::uint64_t>(Butterfly(0, size).rounds());
  return pipelined(rounds, bytes, chunk_count(bytes));
}

std::uint64_t binomial_time(std::size_t bytes, int size) noexcept {
  return static_cast<std::uint64_t>(log2_ceil(size)) * (kLatency + bytes);
}

std::uint64_t chain_time(std::size_t bytes, int size) noexcept {
  const auto hops = static_cast<std::uint64_t>(size - 2);
  return hops * (kLatency + bytes / chain_chunks(bytes, size)) + kLatency + bytes;
}

Route allreduce_route(Route route, std::size_t bytes, int size) noexcept {
  return route == Route::automatic ? cheaper(bytes, size, 2 * (size - 1)) : route;
}

Route reduce_scatter_route(std::size_t bytes, int size) noexcept {
  return cheaper(bytes, size, size - 1);
}

}  // namespace thinwire::collective
