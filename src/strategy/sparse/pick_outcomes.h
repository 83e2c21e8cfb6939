// What becomes of the entries of sparse vectors that are merged and cut, merge after merge: an
// entry lives as long as every merge on its way has kept its index.
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

  // Forgets all; lists of up to `room` entries will need no new memory once they had it.
  void clear(std::size_t room) noexcept {
    used_ = 0;
    room_ = room;
  }
  // Valid until the next call.
  Watched& watch(const Sparse& entries);
  Watched& watch();  // nobody yet; fill it by add
  static void add(Watched& watched, std::uint32_t index, float value);

  // Of everything watched so far, only what is among `survivors` (strictly increasing) lives on.
  void keep_only(std::span<const std::uint32_t> survivors);

  std::size_t size() const noexcept { return used_; }
  Watched& operator[](std::size_t i) noexcept { return lists_[i]; }

 private:
  std::vector<Watched> lists_;  // the first used_ are in use; the memory of all is kept
  std::size_t used_ = 0;
  std::size_t room_ = 0;
};

// Calls found(j, whether entries.indices[j] is among `others`) for every entry.
template <class Found>
void look_up(std::span<const std::uint32_t> indices, std::span<const std::uint32_t> others,
             Found found) {
  std::size_t at = 0;
  for (std::size_t j = 0; j < indices.size(); ++j) {
    while (at < others.size() && others[at] < indices[j]) ++at;
    found(j, at < others.size() && others[at] == indices[j]);
  }
}

// One bit per entry, the first in the lowest bit of the first byte.
void pack_alive(const PickOutcomes::Watched& watched, Payload& bits);
// The indices whose bit is set; bits must hold one for each.
void unpack_survivors(std::span<const std::uint32_t> indices, Bytes bits,
                      std::vector<std::uint32_t>& survivors);

}  // namespace thinwire::strategy
