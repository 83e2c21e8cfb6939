// Collectives: free functions that every rank of a transport calls together, in the same order and
// with the same sizes. docs/algorithms.md gives the rounds and bytes of each. The result is the
// same, bit for bit, on every rank, transport and run. Nothing is allocated once a lane has seen
// the largest call.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "thinwire/transport.h"
#include "thinwire/types.h"

namespace thinwire {

// Collectives use the tags from here to kTagLimit, one per operation, so that ranks that call
// different ones fail rather than mix them up. Messages of your own must use lower tags.
inline constexpr std::uint32_t kCollectiveTags = kTagLimit - 256;

// How an all-reduce travels. `automatic` picks the cheaper one from the size and the number of
// ranks alone, so that all ranks agree.
enum class Route {
  automatic,
  ring,      // 2 (P-1)/P of the data per rank, pipelined in chunks: for large data
  doubling,  // log2 P rounds with all of the data: for small data
};

// data[i] becomes the sum over all ranks. Integer sums wrap; 16-bit floats are rounded at each hop.
void allreduce_sum(Transport& wire, MutFloats data, Route route = Route::automatic);
void allreduce_sum(Transport& wire, std::span<Bf16> data, Route route = Route::automatic);
void allreduce_sum(Transport& wire, std::span<Fp16> data, Route route = Route::automatic);
void allreduce_sum(Transport& wire, std::span<std::uint8_t> data, Route route = Route::automatic);
void allreduce_sum(Transport& wire, std::span<std::uint16_t> data, Route route = Route::automatic);
void allreduce_sum(Transport& wire, std::span<std::uint32_t> data, Route route = Route::automatic);
void allreduce_sum(Transport& wire, std::span<std::uint64_t> data, Route route = Route::automatic);

// data[i] becomes the mean over all ranks. False, on all ranks alike, if a result is not finite.
// The division and the check happen while the wire is busy.
bool allreduce_mean(Transport& wire, MutFloats data, Route route = Route::automatic);

void allreduce_max(Transport& wire, std::span<std::uint32_t> data, Route route = Route::automatic);
void allreduce_max(Transport& wire, std::span<std::uint64_t> data, Route route = Route::automatic);
void allreduce_min(Transport& wire, std::span<std::uint32_t> data, Route route = Route::automatic);
void allreduce_min(Transport& wire, std::span<std::uint64_t> data, Route route = Route::automatic);
void allreduce_and(Transport& wire, std::span<std::uint32_t> data, Route route = Route::automatic);
void allreduce_and(Transport& wire, std::span<std::uint64_t> data, Route route = Route::automatic);

// The payload bytes that `rank` of `size` sends in an all-reduce of numel elements.
std::uint64_t allreduce_bytes(std::size_t numel, int rank, int size, Route route = Route::automatic,
                              std::size_t element_bytes = sizeof(float));

// Elements [begin, end) of n that rank owns when n elements are dealt out evenly, the first ranks
// getting one more.
struct Share {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const noexcept { return end - begin; }
};
Share share_of(std::size_t n, int rank, int size) noexcept;

// data[share_of(n, rank)] becomes the sum over all ranks; the rest of data is left in an
// unspecified state.
void reduce_scatter_sum(Transport& wire, MutFloats data);

// `all` holds size() pieces of equal length in rank order; mine is copied to its place, unless it
// is there already.
void allgather(Transport& wire, Bytes mine, MutBytes all);

// Pieces of any length: `all` becomes their concatenation and lengths[r] the length of rank r's.
// WireError if a rank announces more than max_bytes. `mine` must not lie in `all`.
inline constexpr std::size_t kLongestPiece = std::size_t{1} << 32;
void allgather(Transport& wire, Bytes mine, Payload& all, std::span<std::uint64_t> lengths,
               std::size_t max_bytes = kLongestPiece);

// data of `root` reaches every rank.
void broadcast(Transport& wire, MutBytes data, int root = 0);

// Returns on no rank before it was called on every rank.
void barrier(Transport& wire);

// What a merge does with the values of others; a WireError that it throws gets the name of the rank
// whose value it was.
struct Merge {
  // Merges two values into out (which is empty, with capacity): `lower` holds the contributions of
  // a range of ranks, `higher` those of the range that follows it. Must be a function of its
  // operands alone; need not be associative or commutative.
  using Combine = std::function<void(Bytes lower, Bytes higher, Payload& out)>;
  // Looks at a value that others have merged, before it is passed on.
  using Check = std::function<void(Bytes value)>;

  template <std::convertible_to<Combine> Function>
  Merge(Function combine_two, Check check_one = nullptr)  // a function alone is a merge
      : combine(std::move(combine_two)), check(std::move(check_one)) {}

  Combine combine;
  Check check;  // maybe none
};

// Merges the values of all ranks pairwise; afterwards every rank holds the same one. No value may
// be longer than max_bytes (std::logic_error). The butterfly takes log2 P rounds (two more if P is
// no power of two) in which all ranks work.
void merge_butterfly(Transport& wire, Payload& value, std::size_t max_bytes, const Merge& merge);

}  // namespace thinwire
