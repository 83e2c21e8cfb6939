// The passes over memory that selection is made of, in vector code for whatever CPU this is. Bit
// for bit the same on all of them, and the same as kernel/topk_reference.h.
#pragma once

#include <cstdint>

#include "kernel/topk.h"

namespace thinwire::kernel {

// Entries in index order, in memory of the caller: room for all that a pass may find, and
// kOvershoot more, since whole vectors are stored.
struct Found {
  std::uint32_t* indices = nullptr;
  float* values = nullptr;
  std::size_t size = 0;
};
inline constexpr std::size_t kOvershoot = 64;  // no vector is longer

inline constexpr std::uint32_t kAboveAll = 0x80000000;  // no magnitude is so large

// Accumulates the elements [begin, end) and appends those whose residual is then of at least the
// magnitude `threshold`, at most kAboveAll.
void accumulate(const Accumulation& accumulation, std::size_t begin, std::size_t end,
                std::uint32_t threshold, Found& found);

// Appends those of the elements [begin, end) whose magnitude is in [low, high].
void collect(Floats values, std::size_t begin, std::size_t end, std::uint32_t low,
             std::uint32_t high, Found& found);

}  // namespace thinwire::kernel
