#include "kernel/half.h"

#include "kernel/half_reference.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "half.cpp"
#include <hwy/foreach_target.h>  // compiles the code below once for each CPU target
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernel::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors of at most eight floats: on Zen 4 the addition of fp16 is 10% slower with sixteen.
using FloatTag = hn::CappedTag<float, 8>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
using SignedTag = hn::RebindToSigned<FloatTag>;
using HalfTag = hn::Rebind<std::uint16_t, FloatTag>;
using FloatVector = hn::Vec<FloatTag>;
using Words = hn::Vec<WordTag>;
using Halves = hn::Vec<HalfTag>;

// Returns the lower halves of words that are below 2^16.
HWY_INLINE Halves narrowed(Words words) {
  return hn::DemoteTo(HalfTag(), hn::BitCast(SignedTag(), words));
}

// A format converts vectors (widen, narrow) and, for the rest of a span, single numbers.

struct Bf16Format {
  using Half = Bf16;
  static Half narrow_one(float value) { return reference::to_bf16(value); }

  static HWY_INLINE FloatVector widen(Halves halves) {
    return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(WordTag(), halves)));
  }
  static HWY_INLINE Halves narrow(FloatVector values) {
    constexpr WordTag tag;
    const Words bits = hn::BitCast(tag, values);
    const Words upper = hn::ShiftRight<16>(bits);
    const Words odd = hn::And(upper, hn::Set(tag, 1));
    const Words nearest = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(tag, 0x7fff))));
    const Words quiet = hn::Or(upper, hn::Set(tag, 0x40));
    return narrowed(hn::IfThenElse(hn::RebindMask(tag, hn::IsNaN(values)), quiet, nearest));
  }
};

struct Fp16Format {
  using Half = Fp16;
  static Half narrow_one(float value) { return reference::to_fp16(value); }

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
  // The CPU's own conversion (F16C), which rounds as the reference does.
  using NativeTag = hn::Rebind<hwy::float16_t, FloatTag>;
  static HWY_INLINE FloatVector widen(Halves halves) {
    return hn::PromoteTo(FloatTag(), hn::BitCast(NativeTag(), halves));
  }
  static HWY_INLINE Halves narrow(FloatVector values) {
    return hn::BitCast(HalfTag(), hn::DemoteTo(NativeTag(), values));
  }
#else
  // The steps of the reference. Highway's own conversion does not round where the CPU has none.
  static HWY_INLINE FloatVector widen(Halves halves) {
    constexpr WordTag tag;
    const Words bits = hn::PromoteTo(tag, halves);
    const Words sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(tag, 0x8000)));
    const Words magnitude = hn::And(bits, hn::Set(tag, 0x7fff));
    const Words shifted = hn::ShiftLeft<13>(magnitude);
    const Words normal = hn::Add(shifted, hn::Set(tag, 112u << 23));
    // Zero and subnormal numbers are multiples of 2^-24.
    const FloatVector multiple = hn::ConvertTo(FloatTag(), hn::BitCast(SignedTag(), magnitude));
    const Words small = hn::BitCast(tag, hn::Mul(multiple, hn::Set(FloatTag(), 0x1.0p-24f)));
    const Words infinite = hn::Or(shifted, hn::Set(tag, 0x7f800000));
    const Words quiet = hn::IfThenElseZero(is_above(magnitude, 0x7c00), hn::Set(tag, 0x400000));
    Words out = hn::IfThenElse(is_above(magnitude, 0x3ff), normal, small);
    out = hn::IfThenElse(is_above(magnitude, 0x7bff), hn::Or(infinite, quiet), out);
    return hn::BitCast(FloatTag(), hn::Or(out, sign));
  }
  static HWY_INLINE Halves narrow(FloatVector values) {
    constexpr WordTag tag;
    const Words bits = hn::BitCast(tag, values);
    const Words sign = hn::ShiftRight<16>(hn::And(bits, hn::Set(tag, 0x80000000)));
    const Words magnitude = hn::And(bits, hn::Set(tag, 0x7fffffff));
    const Words truncated = hn::ShiftRight<13>(magnitude);
    const Words odd = hn::And(truncated, hn::Set(tag, 1));
    const Words rounded = hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(odd, hn::Set(tag, 0xfff))));
    const Words normal = hn::Sub(rounded, hn::Set(tag, 112u << 10));
    // Below 2^-14 the result is a multiple of 2^-24, the distance of floats between 0.5 and 1: the
    // addition of 0.5 rounds to it.
    const FloatVector moved =
        hn::Add(hn::BitCast(FloatTag(), magnitude), hn::Set(FloatTag(), 0.5f));
    const Words small = hn::Sub(hn::BitCast(tag, moved), hn::Set(tag, 0x3f000000));
    const Words quiet = hn::Or(hn::And(truncated, hn::Set(tag, 0x3ff)), hn::Set(tag, 0x7e00));
    Words out = hn::IfThenElse(is_above(magnitude, 0x387fffff), normal, small);
    out = hn::IfThenElse(is_above(magnitude, 0x477fefff), hn::Set(tag, 0x7c00), out);
    out = hn::IfThenElse(is_above(magnitude, 0x7f800000), quiet, out);
    return narrowed(hn::Or(out, sign));
  }

 private:
  // Both sides are below 2^31, so they compare as signed numbers do, which every CPU supports.
  static HWY_INLINE hn::Mask<WordTag> is_above(Words words, std::int32_t bound) {
    constexpr SignedTag tag;
    return hn::RebindMask(WordTag(), hn::Gt(hn::BitCast(tag, words), hn::Set(tag, bound)));
  }
#endif
};

template <class Format>
HWY_INLINE void encode_as(Floats in, float scale, typename Format::Half* out) {
  constexpr FloatTag floats;
  constexpr HalfTag halves;
  const std::size_t lanes = hn::Lanes(floats);
  const FloatVector factor = hn::Set(floats, scale);
  std::size_t i = 0;
  for (; i + lanes <= in.size(); i += lanes) {
    const FloatVector scaled = hn::Mul(hn::LoadU(floats, in.data() + i), factor);
    hn::StoreU(Format::narrow(scaled), halves, &out[i].bits);
  }
  for (; i < in.size(); ++i) out[i] = Format::narrow_one(in[i] * scale);
}

template <class Format, class Half>
HWY_INLINE void decode_as(std::span<const Half> in, float* out) {
  constexpr FloatTag floats;
  constexpr HalfTag halves;
  const std::size_t lanes = hn::Lanes(floats);
  std::size_t i = 0;
  for (; i + lanes <= in.size(); i += lanes) {
    hn::StoreU(Format::widen(hn::LoadU(halves, &in[i].bits)), floats, out + i);
  }
  for (; i < in.size(); ++i) out[i] = reference::to_float(in[i]);
}

template <class Format, class Half>
HWY_INLINE void add_as(std::span<const Half> a, const Half* b, Half* out) {
  constexpr HalfTag halves;
  const std::size_t lanes = hn::Lanes(FloatTag());
  std::size_t i = 0;
  for (; i + lanes <= a.size(); i += lanes) {
    const FloatVector left = Format::widen(hn::LoadU(halves, &a[i].bits));
    const FloatVector right = Format::widen(hn::LoadU(halves, &b[i].bits));
    hn::StoreU(Format::narrow(hn::Add(left, right)), halves, &out[i].bits);
  }
  for (; i < a.size(); ++i) {
    out[i] = Format::narrow_one(reference::to_float(a[i]) + reference::to_float(b[i]));
  }
}

void encode_bf16(Floats in, float scale, Bf16* out) { encode_as<Bf16Format>(in, scale, out); }
void encode_fp16(Floats in, float scale, Fp16* out) { encode_as<Fp16Format>(in, scale, out); }
void decode_bf16(std::span<const Bf16> in, float* out) { decode_as<Bf16Format>(in, out); }
void decode_fp16(std::span<const Fp16> in, float* out) { decode_as<Fp16Format>(in, out); }
void add_bf16(std::span<const Bf16> a, const Bf16* b, Bf16* out) { add_as<Bf16Format>(a, b, out); }
void add_fp16(std::span<const Fp16> a, const Fp16* b, Fp16* out) { add_as<Fp16Format>(a, b, out); }

}  // namespace thinwire::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::kernel {

HWY_EXPORT(encode_bf16);
HWY_EXPORT(encode_fp16);
HWY_EXPORT(decode_bf16);
HWY_EXPORT(decode_fp16);
HWY_EXPORT(add_bf16);
HWY_EXPORT(add_fp16);

void encode(Floats in, float scale, std::span<Bf16> out) {
  HWY_DYNAMIC_DISPATCH(encode_bf16)(in, scale, out.data());
}
void encode(Floats in, float scale, std::span<Fp16> out) {
  HWY_DYNAMIC_DISPATCH(encode_fp16)(in, scale, out.data());
}
void decode(std::span<const Bf16> in, MutFloats out) {
  HWY_DYNAMIC_DISPATCH(decode_bf16)(in, out.data());
}
void decode(std::span<const Fp16> in, MutFloats out) {
  HWY_DYNAMIC_DISPATCH(decode_fp16)(in, out.data());
}
void add(std::span<const Bf16> a, std::span<const Bf16> b, std::span<Bf16> out) {
  HWY_DYNAMIC_DISPATCH(add_bf16)(a, b.data(), out.data());
}
void add(std::span<const Fp16> a, std::span<const Fp16> b, std::span<Fp16> out) {
  HWY_DYNAMIC_DISPATCH(add_fp16)(a, b.data(), out.data());
}

}  // namespace thinwire::kernel
#endif
