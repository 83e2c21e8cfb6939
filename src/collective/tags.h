// The tag of each collective.
#pragma once

#include "thinwire/collective.h"

namespace thinwire::collective {

enum class Stream : std::uint32_t {
  barrier,
  broadcast,
  allgather,
  allgather_lengths,
  merge,
  two_hop,              // narrow; + 1: wide
  ring = 0x40,          // + Reduction::number
  doubling = 0x60,      // + Reduction::number
  ring_scatter = 0x80,  // + Reduction::number
};

inline Tag tag_of(Stream stream, std::uint32_t number = 0) {
  return Tag{kCollectiveTags + static_cast<std::uint32_t>(stream) + number};
}

}  // namespace thinwire::collective
