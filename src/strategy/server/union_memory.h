// The coordinates that workers prefer, to make the union of their next picks small. They follow
// from the aggregates that the servers sent, so all ranks know the same ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "thinwire/collective.h"  // Share

namespace thinwire::strategy {

// How a worker selects the entries that it pushes.
enum class SelectionRule {
  hysteresis,  // by magnitude, where an entry of the last aggregate counts (1 + lambda) times
  magnitude,   // by magnitude alone
  mask,  // the largest at the strongest coordinates of the last aggregate, and a quota of others
};

class UnionMemory {
 public:
  explicit UnionMemory(SelectionRule rule) : rule_(rule) {}

  // Prepares for a vector of numel elements in `shards` shards. Must be called once; load(), if it
  // is called, comes first. Throws WireError if the loaded state has another size or number of
  // shards.
  void begin(std::size_t numel, int shards);
  // Takes in the aggregates of a step in which every worker picked k entries, one per shard.
  void observe(std::size_t k, std::span<const Sparse> aggregates);

  SelectionRule rule() const noexcept { return rule_; }
  // Returns which elements of the vector a shard holds.
  Share range(std::size_t shard) const noexcept {
    return share_of(numel_, static_cast<int>(shard), static_cast<int>(masks_.size()));
  }
  std::size_t shards() const noexcept { return masks_.size(); }
  // Returns the preferred coordinates of a shard, strictly increasing, counted from its first
  // element. Valid until the next observe() or load().
  std::span<const std::uint32_t> mask(std::size_t shard) const { return masks_[shard]; }
  // Returns for how many preferred coordinates memory is set aside; there were never more.
  std::size_t most_preferred() const noexcept;
  // Calls visit(index) for all preferred coordinates, counted from the first element of the vector.
  template <class Visit>
  void for_each_preferred(Visit visit) const {
    for (std::size_t shard = 0; shard < masks_.size(); ++shard) {
      const std::size_t begin = range(shard).begin;
      for (const std::uint32_t index : masks_[shard]) visit(begin + index);
    }
  }

  // The state as part of a checkpoint. load throws WireError if the bytes end too early.
  void save(base::ByteWriter& out) const;
  void load(base::ByteReader& in);

 private:
  void prefer(std::size_t shard, std::size_t k, const Sparse& aggregate);

  SelectionRule rule_;
  std::size_t numel_ = 0;
  std::vector<std::vector<std::uint32_t>> masks_;  // by shard
  Sparse strongest_, others_;                      // scratch
};

}  // namespace thinwire::strategy
