#include "kernel/half.h"

#include <bit>
#include <cmath>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace thinwire::kernel {
namespace reference {

float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // A NaN must not be rounded to infinity: it keeps its upper bits and gets the quiet one.
  if ((bits & 0x7fffffff) > 0x7f800000) return {static_cast<std::uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

float to_float(Fp16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000) << 16;
  const std::uint32_t exponent = value.bits >> 10 & 0x1f;
  const std::uint32_t fraction = value.bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1.0p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) {
    const std::uint32_t quiet = fraction != 0 ? 0x400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13 | quiet);
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

Fp16 to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  const auto with_sign = [&](std::uint32_t half) {
    return Fp16{static_cast<std::uint16_t>(sign | half)};
  };
  if (magnitude > 0x7f800000) return with_sign(0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return with_sign(0x7c00);  // 65520 and more round to infinity
  if (magnitude < 0x38800000) {                           // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1.0p24f;
    return with_sign(static_cast<std::uint32_t>(std::nearbyint(scaled)));
  }
  const std::uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return with_sign((rounded >> 13) - (112u << 10));
}

}  // namespace reference

// bf16 is the upper half of a float: plain loops, which the compiler turns into vector code where
// it may use AVX2; without it, it does not.

namespace {

// As the reference, on plain integers and without a branch.
inline std::uint16_t rounded(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const std::uint32_t quiet = bits >> 16 | 0x40;
  return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : nearest);
}
inline float widened(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Inlined, a loop is compiled for the CPU of its caller.
[[gnu::always_inline]] inline void encode_loop(Floats in, float scale, std::uint16_t* out) {
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = rounded(in[i] * scale);
}
[[gnu::always_inline]] inline void decode_loop(const std::uint16_t* in, MutFloats out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = widened(in[i]);
}
[[gnu::always_inline]] inline void add_loop(const std::uint16_t* a, const std::uint16_t* b,
                                            std::span<std::uint16_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = rounded(widened(a[i]) + widened(b[i]));
}

#if defined(__x86_64__)
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
[[gnu::target("avx2")]] void encode_avx2(Floats in, float scale, std::uint16_t* out) {
  encode_loop(in, scale, out);
}
[[gnu::target("avx2")]] void decode_avx2(const std::uint16_t* in, MutFloats out) {
  decode_loop(in, out);
}
[[gnu::target("avx2")]] void add_avx2(const std::uint16_t* a, const std::uint16_t* b,
                                      std::span<std::uint16_t> out) {
  add_loop(a, b, out);
}
#else
bool has_avx2() { return false; }
void encode_avx2(Floats, float, std::uint16_t*) {}
void decode_avx2(const std::uint16_t*, MutFloats) {}
void add_avx2(const std::uint16_t*, const std::uint16_t*, std::span<std::uint16_t>) {}
#endif

}  // namespace

void encode(Floats in, float scale, std::span<Bf16> out) {
  if (in.empty()) return;
  std::uint16_t* const bits = &out[0].bits;
  has_avx2() ? encode_avx2(in, scale, bits) : encode_loop(in, scale, bits);
}
void decode(std::span<const Bf16> in, MutFloats out) {
  if (in.empty()) return;
  const std::uint16_t* const bits = &in[0].bits;
  has_avx2() ? decode_avx2(bits, out) : decode_loop(bits, out);
}
void add(std::span<const Bf16> a, std::span<const Bf16> b, std::span<Bf16> out) {
  if (a.empty()) return;
  const std::span<std::uint16_t> bits(&out[0].bits, out.size());
  has_avx2() ? add_avx2(&a[0].bits, &b[0].bits, bits) : add_loop(&a[0].bits, &b[0].bits, bits);
}

// fp16 needs the CPU's own conversion to be fast; the rest of a vector, and CPUs without it, go
// number by number.

namespace {

#if defined(__x86_64__)
bool has_f16c() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;  // not every compiler can be asked for f16c by name
    return __builtin_cpu_supports("avx") != 0 && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
           (c & bit_F16C) != 0;
  }();
  return has;
}

constexpr std::size_t kLanes = 8;

[[gnu::target("avx,f16c")]] __m256 load(const Fp16* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
[[gnu::target("avx,f16c")]] void store(__m256 value, Fp16* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

[[gnu::target("avx,f16c")]] std::size_t encode_vectors(Floats in, float scale, Fp16* out) {
  const __m256 factor = _mm256_set1_ps(scale);
  std::size_t i = 0;
  for (; i + kLanes <= in.size(); i += kLanes) {
    store(_mm256_mul_ps(_mm256_loadu_ps(in.data() + i), factor), out + i);
  }
  return i;
}
[[gnu::target("avx,f16c")]] std::size_t decode_vectors(std::span<const Fp16> in, float* out) {
  std::size_t i = 0;
  for (; i + kLanes <= in.size(); i += kLanes) _mm256_storeu_ps(out + i, load(in.data() + i));
  return i;
}
[[gnu::target("avx,f16c")]] std::size_t add_vectors(std::span<const Fp16> a, const Fp16* b,
                                                    Fp16* out) {
  std::size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    store(_mm256_add_ps(load(a.data() + i), load(b + i)), out + i);
  }
  return i;
}
#else
bool has_f16c() { return false; }
std::size_t encode_vectors(Floats, float, Fp16*) { return 0; }
std::size_t decode_vectors(std::span<const Fp16>, float*) { return 0; }
std::size_t add_vectors(std::span<const Fp16>, const Fp16*, Fp16*) { return 0; }
#endif

}  // namespace

void encode(Floats in, float scale, std::span<Fp16> out) {
  std::size_t i = has_f16c() ? encode_vectors(in, scale, out.data()) : 0;
  for (; i < in.size(); ++i) out[i] = reference::to_fp16(in[i] * scale);
}
void decode(std::span<const Fp16> in, MutFloats out) {
  std::size_t i = has_f16c() ? decode_vectors(in, out.data()) : 0;
  for (; i < in.size(); ++i) out[i] = reference::to_float(in[i]);
}
void add(std::span<const Fp16> a, std::span<const Fp16> b, std::span<Fp16> out) {
  std::size_t i = has_f16c() ? add_vectors(a, b.data(), out.data()) : 0;
  for (; i < a.size(); ++i) {
    out[i] = reference::to_fp16(reference::to_float(a[i]) + reference::to_float(b[i]));
  }
}

}  // namespace thinwire::kernel
