#include "strategy/server/union_memory.h"
#include "kernel/sparse.h"

#include <fmt/format.h>

#include <algorithm>

#include "strategy/common/state.h"

namespace thinwire::strategy {
namespace {

constexpr float kForgetting = 0.9f;  // share of the past in a frequency

void put_indices(base::ByteWriter& out, std::span<const std::uint32_t> indices) {
  out.put<std::uint64_t>(indices.size());
  out.put(std::as_bytes(indices));
}

std::vector<std::uint32_t> get_indices(base::ByteReader& in) {
  const auto count = in.get<std::uint64_t>();
  if (count > in.left() / sizeof(std::uint32_t)) {
    throw WireError("the strategy's state is cut short");
  }
  std::vector<std::uint32_t> indices(static_cast<std::size_t>(count));
  const Bytes bytes = in.take(indices.size() * sizeof(std::uint32_t));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(indices)).begin());
  return indices;
}

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
  if (!fits)
    throw WireError("the checkpoint's last aggregate is not one of this model and servers");
  prepare(frequencies_, metric_ == SelectionRule::frequency ? numel : 0, "frequencies");
  const std::size_t seen = metric_ == SelectionRule::age ? numel : 0;
  if (last_seen_.empty()) last_seen_.resize(seen, 0);
  if (last_seen_.size() != seen) {
    throw WireError(fmt::format("the checkpoint has the ages of {} elements, the model needs {}",
                                last_seen_.size(), seen));
  }
}

void UnionMemory::observe(std::uint64_t step, std::size_t k,
                          std::span<const message::ShardContents> aggregates) {
  for (float& frequency : frequencies_) frequency *= kForgetting;
  for (std::size_t shard = 0; shard < aggregates.size(); ++shard) {
    prefer(shard, k, aggregates[shard]);
    const std::size_t begin = range(shard).begin;
    for (const std::uint32_t index : aggregates[shard].entries.indices) {
      if (!frequencies_.empty()) frequencies_[begin + index] += 1 - kForgetting;
      if (!last_seen_.empty()) last_seen_[begin + index] = static_cast<std::uint32_t>(step + 1);
    }
  }
}

void UnionMemory::prefer(std::size_t shard, std::size_t k,
                         const message::ShardContents& aggregate) {
  std::vector<std::uint32_t>& mask = masks_[shard];
  mask.reserve(aggregate.entries.indices.capacity());  // set aside for the largest union
  if (metric_ == SelectionRule::leader) {
    mask = aggregate.proposals;
    return;
  }
  if (metric_ != SelectionRule::mask) {
    mask = aggregate.entries.indices;
    return;
  }
  // Its share of k, so that the server of a shard knows the mask from its own aggregate.
  const double share = static_cast<double>(range(shard).size()) / static_cast<double>(numel_);
  for (Sparse* each : {&strongest_, &others_}) each->reserve(mask.capacity() + 1);
  strongest_ = aggregate.entries;
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
  put_floats(out, frequencies_);
  put_indices(out, last_seen_);
}

void UnionMemory::load(base::ByteReader& in) {
  const auto shards = in.get<std::uint64_t>();
  masks_.clear();
  for (std::uint64_t shard = 0; shard < shards; ++shard) masks_.push_back(get_indices(in));
  frequencies_ = get_floats(in);
  last_seen_ = get_indices(in);
}

}  // namespace thinwire::strategy
