#include "kernel/topk_passes.h"

#include <array>
#include <bit>

#include "kernel/magnitude.h"
#include "kernel/topk_reference.h"

#ifndef THINWIRE_KERNEL_TOPK_ORDER  // once, not for each CPU target
#define THINWIRE_KERNEL_TOPK_ORDER
namespace thinwire::kernel {

// kMarkedFirst<lanes>[mask] lists the lanes whose bit in the mask is set, in order, followed by
// zeros.
template <std::size_t lanes>
constexpr auto kMarkedFirst = [] {
  std::array<std::array<std::uint32_t, lanes>, 1u << lanes> out{};
  for (std::uint32_t mask = 0; mask < out.size(); ++mask) {
    std::size_t next = 0;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      if ((mask >> lane & 1) != 0) out[mask][next++] = lane;
    }
  }
  return out;
}();
constexpr std::size_t kMostTableLanes = 8;

constexpr auto kLaneNumbers = [] {
  std::array<std::uint32_t, kOvershoot> out{};
  for (std::uint32_t lane = 0; lane < kOvershoot; ++lane) out[lane] = lane;
  return out;
}();

}  // namespace thinwire::kernel
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "topk_passes.cpp"
#include <hwy/foreach_target.h>  // compiles the code below once for each CPU target
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernel::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, kOvershoot>;
using SignedTag = hn::RebindToSigned<FloatTag>;
using UnsignedTag = hn::RebindToUnsigned<FloatTag>;
using FloatVector = hn::Vec<FloatTag>;
using FloatMask = hn::Mask<FloatTag>;
constexpr FloatTag kFloats;
constexpr SignedTag kSigned;
constexpr UnsignedTag kUnsigned;

// Magnitudes are below 2^31, so that they may be compared as signed numbers, the only ones that all
// CPUs compare. They are compared with one less than the bound: x >= b as x > b - 1.
HWY_INLINE hn::Vec<SignedTag> before(std::uint32_t bound) {
  return hn::Set(kSigned, static_cast<std::int32_t>(bound - 1));
}
HWY_INLINE FloatMask exceeds(FloatVector values, hn::Vec<SignedTag> bound) {
  const auto magnitudes = hn::BitCast(kSigned, hn::Abs(values));
  return hn::RebindMask(kFloats, hn::Gt(magnitudes, bound));
}

// Appends the marked lanes; lane 0 is element `begin`. The lanes are moved to the front of a
// register, which is then stored as a whole. Compressing directly to memory is microcode on Zen 4
// and seven times slower.
template <std::size_t kLanes = hn::MaxLanes(kFloats)>
HWY_INLINE void append(FloatVector values, FloatMask marked, std::size_t begin, Found& found) {
  const auto first = hn::Set(kUnsigned, static_cast<std::uint32_t>(begin));
  float* const to_values = found.values + found.size;
  std::uint32_t* const to_indices = found.indices + found.size;
  if constexpr (kLanes <= kMostTableLanes) {
    // This uses a table of our own, because GCC 12 copies Highway's table to the stack for each
    // vector.
    std::uint8_t bits[8];
    hn::StoreMaskBits(kFloats, marked, bits);
    const auto order = hn::LoadU(kUnsigned, kMarkedFirst<kLanes>[bits[0]].data());
    const auto moves = hn::IndicesFromVec(kFloats, order);
    hn::StoreU(hn::TableLookupLanes(values, moves), kFloats, to_values);
    hn::StoreU(hn::Add(first, order), kUnsigned, to_indices);
    found.size += static_cast<std::size_t>(std::popcount(bits[0]));
  } else {
    const auto indices = hn::Add(first, hn::LoadU(kUnsigned, kLaneNumbers.data()));
    hn::StoreU(hn::Compress(values, marked), kFloats, to_values);
    hn::StoreU(hn::Compress(indices, hn::RebindMask(kUnsigned, marked)), kUnsigned, to_indices);
    found.size += hn::CountTrue(kFloats, marked);
  }
}

struct Group {  // four vectors with one test, because most groups have nothing to append
  FloatVector x0, x1, x2, x3;
};

// Appends the lanes x of a group for which marked(x) is true; the first lane is element `begin`.
template <class Marked>
HWY_INLINE void append_marked(const Group& x, Marked marked, std::size_t begin, Found& found) {
  const std::size_t lanes = hn::Lanes(kFloats);
  const FloatMask m0 = marked(x.x0), m1 = marked(x.x1), m2 = marked(x.x2), m3 = marked(x.x3);
  if (HWY_LIKELY(hn::AllFalse(kFloats, hn::Or(hn::Or(m0, m1), hn::Or(m2, m3))))) return;
  append(x.x0, m0, begin, found);
  append(x.x1, m1, begin + lanes, found);
  append(x.x2, m2, begin + 2 * lanes, found);
  append(x.x3, m3, begin + 3 * lanes, found);
}

enum class Velocity { none, momentum, nesterov };

// Computes the definition in kernel/topk.h for one vector of elements; stores and returns the new
// residual.
template <Velocity velocity, bool decays>
HWY_INLINE FloatVector accumulate_at(const Accumulation& a, std::size_t i) {
  FloatVector d = hn::LoadU(kFloats, a.gradient.data() + i);
  hn::StoreU(hn::Zero(kFloats), kFloats, a.gradient.data() + i);
  if constexpr (decays) {
    const FloatVector params = hn::LoadU(kFloats, a.params.data() + i);
    d = hn::Add(d, hn::Mul(hn::Set(kFloats, a.weight_decay), params));
  }
  FloatVector residual = hn::LoadU(kFloats, a.residual.data() + i);
  if constexpr (velocity == Velocity::none) {
    residual = hn::Add(residual, d);
  } else {
    const FloatVector momentum = hn::Set(kFloats, a.momentum);
    FloatVector u = hn::LoadU(kFloats, a.velocity.data() + i);
    if constexpr (velocity == Velocity::momentum) {
      u = hn::Add(hn::Mul(momentum, u), d);
      residual = hn::Add(residual, u);
    } else {
      u = hn::Mul(momentum, hn::Add(u, d));
      residual = hn::Add(residual, hn::Add(u, d));
    }
    hn::StoreU(u, kFloats, a.velocity.data() + i);
  }
  hn::StoreU(residual, kFloats, a.residual.data() + i);
  return residual;
}

// The loop of every pass over [begin, end). values_at(i) returns a vector of elements, value_at(i)
// a single element; marked_lanes and marked say which of them to append.
template <class ValuesAt, class ValueAt, class MarkedLanes, class Marked>
HWY_INLINE void scan(std::size_t begin, std::size_t end, ValuesAt values_at, ValueAt value_at,
                     MarkedLanes marked_lanes, Marked marked, Found& found_outside) {
  Found found = found_outside;  // in registers
  const std::size_t lanes = hn::Lanes(kFloats);
  std::size_t i = begin;
  for (; i + 4 * lanes <= end; i += 4 * lanes) {
    const Group group = {values_at(i), values_at(i + lanes), values_at(i + 2 * lanes),
                         values_at(i + 3 * lanes)};
    append_marked(group, marked_lanes, i, found);
  }
  for (; i < end; ++i) {
    const float value = value_at(i);
    if (!marked(magnitude(value))) continue;
    found.indices[found.size] = static_cast<std::uint32_t>(i);
    found.values[found.size++] = value;
  }
  found_outside = found;
}

template <Velocity velocity, bool decays>
void accumulate_as(const Accumulation& accumulation, std::size_t begin, std::size_t end,
                   std::uint32_t threshold, Found& found) {
  const Accumulation a = accumulation;  // a copy: a store through a float* cannot change it
  const auto bound = before(threshold);
  scan(
      begin, end, [&](std::size_t i) HWY_ATTR { return accumulate_at<velocity, decays>(a, i); },
      [&](std::size_t i) HWY_ATTR {
        reference::accumulate(a, i);
        return a.residual[i];
      },
      [&](FloatVector x) HWY_ATTR { return exceeds(x, bound); },
      [&](std::uint32_t bits) HWY_ATTR { return bits >= threshold; }, found);
}

void accumulate(const Accumulation& a, std::size_t begin, std::size_t end, std::uint32_t threshold,
                Found& found) {
  const bool decays = a.weight_decay != 0;
  if (a.velocity.empty()) {
    return decays ? accumulate_as<Velocity::none, true>(a, begin, end, threshold, found)
                  : accumulate_as<Velocity::none, false>(a, begin, end, threshold, found);
  }
  if (a.nesterov) {
    return decays ? accumulate_as<Velocity::nesterov, true>(a, begin, end, threshold, found)
                  : accumulate_as<Velocity::nesterov, false>(a, begin, end, threshold, found);
  }
  return decays ? accumulate_as<Velocity::momentum, true>(a, begin, end, threshold, found)
                : accumulate_as<Velocity::momentum, false>(a, begin, end, threshold, found);
}

void collect(Floats values, std::size_t begin, std::size_t end, std::uint32_t low,
             std::uint32_t high, Found& found) {
  const auto below = before(low), top = before(high + 1);
  scan(
      begin, end, [&](std::size_t i) HWY_ATTR { return hn::LoadU(kFloats, values.data() + i); },
      [&](std::size_t i) HWY_ATTR { return values[i]; },
      [&](FloatVector x) HWY_ATTR { return hn::AndNot(exceeds(x, top), exceeds(x, below)); },
      [&](std::uint32_t bits) HWY_ATTR { return low <= bits && bits <= high; }, found);
}

}  // namespace thinwire::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::kernel {

HWY_EXPORT(accumulate);
HWY_EXPORT(collect);

void accumulate(const Accumulation& accumulation, std::size_t begin, std::size_t end,
                std::uint32_t threshold, Found& found) {
  HWY_DYNAMIC_DISPATCH(accumulate)(accumulation, begin, end, threshold, found);
}

void collect(Floats values, std::size_t begin, std::size_t end, std::uint32_t low,
             std::uint32_t high, Found& found) {
  HWY_DYNAMIC_DISPATCH(collect)(values, begin, end, low, high, found);
}

}  // namespace thinwire::kernel
#endif
