// An element type and an operation on it, erased, so that each algorithm exists once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace thinwire {

struct Reduction {
  std::size_t element_bytes;
  // out[i] = op(lower[i], higher[i]) for n elements. `out` may be `lower` or `higher`. The result
  // is the same whichever it is, NaN payloads included: two ranks may compute it differently.
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

template <template <class> class Op, class T>
void combine(const std::byte* lower, const std::byte* higher, std::byte* out, std::size_t n) {
  const auto* a = reinterpret_cast<const T*>(lower);
  const auto* b = reinterpret_cast<const T*>(higher);
  auto* c = reinterpret_cast<T*>(out);
  // The spans are equal or disjoint. One loop for both, not a vector loop and a scalar one, keeps
  // the order of the operands, and so the payload of NaN + NaN, the same.
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) c[i] = Op<T>::apply(a[i], b[i]);
}

template <template <class> class Op, class T>
constexpr Reduction make_reduction(std::uint32_t number) {
  return {sizeof(T), combine<Op, T>, number};
}

}  // namespace thinwire
