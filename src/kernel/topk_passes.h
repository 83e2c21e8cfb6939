// The passes over memory that selection consists of, in SIMD code for the CPU that runs it. The
// results have the same bits on every CPU as those of kernel/topk_reference.h.
#pragma once

#include <cstdint>

#include "kernel/topk.h"

namespace thinwire::kernel {

// A list of entries in index order. The caller owns the memory, which must have room for all
// entries that a pass may find and for kOvershoot more, because whole SIMD vectors are stored.
struct Found {
  std::uint32_t* indices = nullptr;
  float* values = nullptr;
  std::size_t size = 0;
};
inline constexpr std::size_t kOvershoot = 64;  // no SIMD vector has more elements

inline constexpr std::uint32_t kAboveAll = 0x80000000;  // more than any magnitude

// Accumulates the elements [begin, end) and appends those whose new residual has at least the
// magnitude `threshold`, which is at most kAboveAll.
void accumulate(const Accumulation& accumulation, std::size_t begin, std::size_t end,
                std::uint32_t threshold, Found& found);

// Appends the elements of [begin, end) whose magnitude is in [low, high].
void collect(Floats values, std::size_t begin, std::size_t end, std::uint32_t low,
             std::uint32_t high, Found& found);

}  // namespace thinwire::kernel
