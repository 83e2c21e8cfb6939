#include "strategy/server/union_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "kernel/sparse.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

void put_indices(base::ByteWriter& out, std::span<const std::uint32_t> indices) {
  out.put<std::uint64_t>(indices.size());
  out.put(std::as_bytes(indices));
}

std::vector<std::uint32_t> get_indices(base::ByteReader& in) {
  const auto count = in.get<std::uint64_t>();
  if (count > in.left() / sizeof(std::uint32_t)) {
    throw WireError(
        fmt::format("ps: its state ends too early ({} indices, {} bytes left)", count, in.left()));
  }
  std::vector<std::uint32_t> indices(static_cast<std::size_t>(count));
  const Bytes bytes = in.take(indices.size() * sizeof(std::uint32_t));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(indices)).begin());
  return indices;
}

// Returns whether the indices increase strictly and are below numel.
bool increase(std::span<const std::uint32_t> indices, std::size_t numel) {
  return std::ranges::is_sorted(indices, std::less_equal{}) &&
         (indices.empty() || indices.back() < numel);
}

}  // namespace

void UnionMemory::begin(std::size_t numel, int shards) {
  numel_ = numel;
  if (masks_.empty()) masks_.resize(static_cast<std::size_t>(shards));
  bool fits = masks_.size() == static_cast<std::size_t>(shards);
  for (std::size_t shard = 0; fits && shard < masks_.size(); ++shard) {
    fits = increase(masks_[shard], range(shard).size());
  }
  if (!fits) {
    throw WireError(fmt::format(
        "ps: the checkpoint does not fit a model of {} elements on {} servers", numel, shards));
  }
}

void UnionMemory::observe(std::size_t k, std::span<const Sparse> aggregates) {
  for (std::size_t shard = 0; shard < aggregates.size(); ++shard) {
    prefer(shard, k, aggregates[shard]);
  }
}

void UnionMemory::prefer(std::size_t shard, std::size_t k, const Sparse& aggregate) {
  std::vector<std::uint32_t>& mask = masks_[shard];
  mask.reserve(aggregate.indices.capacity());  // which is enough for the largest union
  if (rule_ != SelectionRule::mask) {
    mask = aggregate.indices;
    return;
  }
  // Each shard has its share of k, so that its server knows the mask from its own aggregate.
  const double share = static_cast<double>(range(shard).size()) / static_cast<double>(numel_);
  for (Sparse* each : {&strongest_, &others_}) each->reserve(mask.capacity() + 1);
  strongest_ = aggregate;
  kernel::cut(strongest_, static_cast<std::size_t>(share * static_cast<double>(k)), others_);
  mask = strongest_.indices;
}

std::size_t UnionMemory::most_preferred() const noexcept {
  std::size_t most = 0;
  for (const auto& mask : masks_) most += mask.capacity();
  return most;
}

void UnionMemory::save(base::ByteWriter& out) const {
  out.put<std::uint64_t>(masks_.size());
  for (const auto& mask : masks_) put_indices(out, mask);
}

void UnionMemory::load(base::ByteReader& in) {
  const auto shards = in.get<std::uint64_t>();
  masks_.clear();
  for (std::uint64_t shard = 0; shard < shards; ++shard) masks_.push_back(get_indices(in));
}

}  // namespace thinwire::strategy
