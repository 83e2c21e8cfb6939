// What workers remember of the aggregates that a server sent them, and so all of them alike: the
// coordinates that they prefer, to make the union of their next picks small.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "message/shard_message.h"
#include "thinwire/collective.h"  // Share

namespace thinwire::strategy {

// By what a worker selects.
enum class SelectionRule {
  hysteresis,  // what is in the last aggregate counts (1 + lambda) times
  magnitude,   // no memory
  mask,        // the strongest of the last aggregate, and a quota of others
  frequency,   // counts (1 + lambda f) times, f how often it was in the last aggregates
  age,         // hysteresis, and more the longer it was in none
  leader,      // what one of the workers proposed
};

class UnionMemory {
 public:
  explicit UnionMemory(SelectionRule rule) : metric_(rule) {}

  // Of a vector cut into shards. WireError if a loaded memory is of another vector.
  void begin(std::size_t numel, int shards);
  // What came back in a step in which every worker picked k, by shard.
  void observe(std::uint64_t step, std::size_t k,
               std::span<const message::ShardContents> aggregates);

  SelectionRule rule() const noexcept { return metric_; }
  Share range(std::size_t shard) const noexcept {
    return share_of(numel_, static_cast<int>(shard), static_cast<int>(masks_.size()));
  }
  std::size_t shards() const noexcept { return masks_.size(); }
  // The preferred coordinates of a shard, counted from its begin; strictly increasing.
  std::span<const std::uint32_t> mask(std::size_t shard) const { return masks_[shard]; }
  // No more were ever preferred, and memory for so many is set aside.
  std::size_t most_preferred() const noexcept;
  // Calls visit(index) for all of them, counted from the begin of the vector.
  template <class Visit>
  void for_each_preferred(Visit visit) const {
    for (std::size_t shard = 0; shard < masks_.size(); ++shard) {
      const std::size_t begin = range(shard).begin;
      for (const std::uint32_t index : masks_[shard]) visit(begin + index);
    }
  }

  // Frequency: an average over about ten steps, 0 ... 1, of every element.
  Floats frequencies() const noexcept { return frequencies_; }
  // Age: after which step each element last came back, counted from 1; 0 if never.
  std::span<const std::uint32_t> last_seen() const noexcept { return last_seen_; }

  void save(base::ByteWriter& out) const;
  void load(base::ByteReader& in);

 private:
  void prefer(std::size_t shard, std::size_t k, const message::ShardContents& aggregate);

  SelectionRule metric_;
  std::size_t numel_ = 0;
  std::vector<std::vector<std::uint32_t>> masks_;  // by shard
  std::vector<float> frequencies_;
  std::vector<std::uint32_t> last_seen_;
  Sparse strongest_, others_;  // scratch
};

}  // namespace thinwire::strategy
