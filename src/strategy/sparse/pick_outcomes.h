// Follows the entries of sparse vectors through several merges that each keep only the largest
// entries: an entry is alive as long as every merge has kept its index.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/types.h"

namespace thinwire::strategy {

class PickOutcomes {
 public:
  struct Watched {
    Sparse entries;
    std::vector<std::uint8_t> alive;  // 0 or 1, for each entry
  };

  // Drops all lists but keeps their memory. Lists get room for `room` entries when they are made.
  void clear(std::size_t room) noexcept {
    used_ = 0;
    room_ = room;
  }
  // Make a new list, of these entries or empty (add() fills it). The reference is valid until the
  // next call.
  Watched& watch(const Sparse& entries);
  Watched& watch();
  static void add(Watched& watched, std::uint32_t index, float value);

  // Marks all entries of all lists as dead whose index is not in `survivors` (strictly increasing).
  void keep_only(std::span<const std::uint32_t> survivors);

  std::size_t size() const noexcept { return used_; }
  Watched& operator[](std::size_t i) noexcept { return lists_[i]; }

 private:
  std::vector<Watched> lists_;  // the first used_ are in use
  std::size_t used_ = 0;
  std::size_t room_ = 0;
};

// Calls found(j, whether indices[j] is in `others`) for every j. Both must increase strictly.
template <class Found>
void look_up(std::span<const std::uint32_t> indices, std::span<const std::uint32_t> others,
             Found found) {
  std::size_t at = 0;
  for (std::size_t j = 0; j < indices.size(); ++j) {
    while (at < others.size() && others[at] < indices[j]) ++at;
    found(j, at < others.size() && others[at] == indices[j]);
  }
}

// Writes one bit per entry, which says whether it is alive: the first is the lowest bit of the
// first byte.
void pack_alive(const PickOutcomes::Watched& watched, Payload& bits);
// Replaces `survivors` by the indices whose bit is set. `bits` must have a bit for each index.
void unpack_survivors(std::span<const std::uint32_t> indices, Bytes bits,
                      std::vector<std::uint32_t>& survivors);

}  // namespace thinwire::strategy
