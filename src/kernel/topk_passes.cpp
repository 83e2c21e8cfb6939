#include "kernel/topk_passes.h"

#include "kernel/magnitude.h"
#include "kernel/topk_reference.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/topk_passes.cpp"
#include <hwy/foreach_target.h>  // compiles the part below once for each kind of CPU
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

// Appends the marked lanes; lane 0 is element `begin`. Compress goes to a register, and from there
// as a whole to memory: compressing straight to memory is microcode on Zen 4, seven times slower.
HWY_INLINE void append(FloatVector values, FloatMask marked, std::size_t begin, Found& found) {
  const auto indices = hn::Iota(kUnsigned, static_cast<std::uint32_t>(begin));
  hn::StoreU(hn::Compress(values, marked), kFloats, found.values + found.size);
  hn::StoreU(hn::Compress(indices, hn::RebindMask(kUnsigned, marked)), kUnsigned,
             found.indices + found.size);
  found.size += hn::CountTrue(kFloats, marked);
}

enum class Velocity { none, momentum, nesterov };

// One vector of the definition in thinwire/sparse.h; the new residual is stored and returned.
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

// Four vectors share one test, since hardly any has a candidate.
template <Velocity velocity, bool decays>
void accumulate_as(const Accumulation& accumulation, std::size_t begin, std::size_t end,
                   std::uint32_t threshold, Found& found_outside) {
  const Accumulation a = accumulation;  // copies, which no store through a float* can change
  Found found = found_outside;
  const std::size_t lanes = hn::Lanes(kFloats);
  const auto bound = before(threshold);
  std::size_t i = begin;
  for (; i + 4 * lanes <= end; i += 4 * lanes) {
    const FloatVector x0 = accumulate_at<velocity, decays>(a, i);
    const FloatVector x1 = accumulate_at<velocity, decays>(a, i + lanes);
    const FloatVector x2 = accumulate_at<velocity, decays>(a, i + 2 * lanes);
    const FloatVector x3 = accumulate_at<velocity, decays>(a, i + 3 * lanes);
    const FloatMask m0 = exceeds(x0, bound), m1 = exceeds(x1, bound);
    const FloatMask m2 = exceeds(x2, bound), m3 = exceeds(x3, bound);
    if (HWY_LIKELY(hn::AllFalse(kFloats, hn::Or(hn::Or(m0, m1), hn::Or(m2, m3))))) continue;
    append(x0, m0, i, found);
    append(x1, m1, i + lanes, found);
    append(x2, m2, i + 2 * lanes, found);
    append(x3, m3, i + 3 * lanes, found);
  }
  for (; i + lanes <= end; i += lanes) {
    const FloatVector x = accumulate_at<velocity, decays>(a, i);
    append(x, exceeds(x, bound), i, found);
  }
  for (; i < end; ++i) {
    reference::accumulate(a, i);
    if (magnitude(a.residual[i]) >= threshold) {
      found.indices[found.size] = static_cast<std::uint32_t>(i);
      found.values[found.size++] = a.residual[i];
    }
  }
  found_outside = found;
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
             std::uint32_t high, Found& found_outside) {
  Found found = found_outside;
  const std::size_t lanes = hn::Lanes(kFloats);
  const auto below = before(low), top = before(high + 1);
  std::size_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    const FloatVector x = hn::LoadU(kFloats, values.data() + i);
    const FloatMask marked = hn::AndNot(exceeds(x, top), exceeds(x, below));
    if (!hn::AllFalse(kFloats, marked)) append(x, marked, i, found);
  }
  for (; i < end; ++i) {
    const std::uint32_t bits = magnitude(values[i]);
    if (low <= bits && bits <= high) {
      found.indices[found.size] = static_cast<std::uint32_t>(i);
      found.values[found.size++] = values[i];
    }
  }
  found_outside = found;
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
