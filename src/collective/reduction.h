// An operation on elements of a type that is erased, so that each algorithm is compiled once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernel/half.h"

namespace thinwire::collective {

struct Reduction {
  std::size_t element_bytes;
  // out[i] = op(lower[i], higher[i]) for n elements. `out` may be `lower` or `higher`: the result
  // has the same bits, since two ranks that hold one operand each compute it both ways.
  void (*combine)(const std::byte* lower, const std::byte* higher, std::byte* out, std::size_t n);
  std::uint32_t number;  // below 32; keeps the messages of different reductions apart
};

template <class T>
struct Sum {
  static T apply(T lower, T higher) { return static_cast<T>(lower + higher); }
};
template <class T>
struct Max {
  static T apply(T lower, T higher) { return std::max(lower, higher); }
};
template <class T>
struct Min {
  static T apply(T lower, T higher) { return std::min(lower, higher); }
};
template <class T>
struct And {
  static T apply(T lower, T higher) { return lower & higher; }
};

// This function is not inlined. The sum of two NaNs is one of them, and which one depends on how
// the compiler orders the operands in each copy of the loop. With one copy, and no branch on
// addresses, all ranks get the same bits.
template <template <class> class Op, class T>
[[gnu::noinline]] void combine(const std::byte* lower, const std::byte* higher, std::byte* out,
                               std::size_t n) {
  const auto* a = reinterpret_cast<const T*>(lower);
  const auto* b = reinterpret_cast<const T*>(higher);
  auto* c = reinterpret_cast<T*>(out);
  // The spans are equal or disjoint: no element depends on another.
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < n; ++i) c[i] = Op<T>::apply(a[i], b[i]);
}

template <template <class> class Op, class T>
constexpr Reduction make_reduction(std::uint32_t number) {
  return {sizeof(T), combine<Op, T>, number};
}

template <class Half>
constexpr Reduction make_half_sum(std::uint32_t number) {
  const auto add = [](const std::byte* lower, const std::byte* higher, std::byte* out,
                      std::size_t n) {
    kernel::add({reinterpret_cast<const Half*>(lower), n},
                {reinterpret_cast<const Half*>(higher), n}, {reinterpret_cast<Half*>(out), n});
  };
  return {sizeof(Half), add, number};
}

}  // namespace thinwire::collective
