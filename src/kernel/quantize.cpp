#include "kernel/quantize.h"

#include <algorithm>

#include "base/random.h"
#include "kernel/magnitude.h"
#include "kernel/quantize_reference.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantize.cpp"
#include <hwy/foreach_target.h>  // compiles the code below once for each CPU target
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernel::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

using reference::dequantize;
using reference::find_fits;
using reference::highest_magnitude;
using reference::quantize;

#else

namespace hn = hwy::HWY_NAMESPACE;

// Vectors have eight lanes, or fewer on small CPUs. The random bits of an element depend on this
// width.
constexpr std::size_t kWidth = 8;
using WordTag = hn::CappedTag<std::uint32_t, kWidth>;
using FloatTag = hn::RebindToFloat<WordTag>;
using SignedTag = hn::RebindToSigned<WordTag>;
using LongTag = hn::RepartitionToWide<WordTag>;
using Words = hn::Vec<WordTag>;
using FloatVector = hn::Vec<FloatTag>;
constexpr WordTag kWords;
constexpr FloatTag kFloats;
constexpr SignedTag kSigned;
constexpr LongTag kLongs;

// --- Random numbers: Philox4x32-10, a block per lane.

struct Block {
  Words w0, w1, w2, w3;
};

struct Product {
  Words high, low;
};

HWY_INLINE Product multiply(Words a, std::uint32_t factor) {
  const Words b = hn::Set(kWords, factor);
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(kWords, hn::ShiftRight<32>(hn::BitCast(kLongs, a))), b);
  return {hn::OddEven(hn::BitCast(kWords, odd), hn::BitCast(kWords, hn::ShiftRight<32>(even))),
          hn::OddEven(hn::BitCast(kWords, hn::ShiftLeft<32>(odd)), hn::BitCast(kWords, even))};
}

struct Key {
  std::uint32_t low, high;
};

HWY_INLINE void turn(Block& block, Key key) {
  const Product first = multiply(block.w0, 0xD2511F53), second = multiply(block.w2, 0xCD9E8D57);
  block.w0 = hn::Xor(hn::Xor(second.high, block.w1), hn::Set(kWords, key.low));
  block.w1 = second.low;
  block.w2 = hn::Xor(hn::Xor(first.high, block.w3), hn::Set(kWords, key.high));
  block.w3 = first.low;
}

// Returns the blocks with the numbers first, first + 1, ... as base::philox counts them. `first` is
// a multiple of the number of lanes.
HWY_INLINE Block philox_at(const Dither& dither, std::uint64_t first) {
  const auto purpose = static_cast<std::uint32_t>(base::Purpose::rounding) << 16;
  Block block = {
      hn::Add(hn::Iota(kWords, 0), hn::Set(kWords, static_cast<std::uint32_t>(first))),
      hn::Set(kWords, (static_cast<std::uint32_t>(first >> 32) & 0xffff) | purpose),
      hn::Set(kWords, static_cast<std::uint32_t>(dither.step)),
      hn::Set(kWords, static_cast<std::uint32_t>(dither.step >> 32)),
  };
  Key key = {static_cast<std::uint32_t>(dither.seed),
             static_cast<std::uint32_t>(dither.seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    turn(block, key);
    key.low += 0x9E3779B9;
    key.high += 0xBB67AE85;
  }
  return block;
}

// --- Scales.

// Returns a mask of the lanes whose bit is set; the lanes are elements i, i + 1, ... of a tile.
HWY_INLINE hn::Mask<FloatTag> lanes_that_fit(const std::uint64_t* plane, std::size_t i) {
  const auto bits = static_cast<std::uint32_t>(plane[i / 64] >> i % 64);
  const Words lane_bit = hn::Shl(hn::Set(kWords, 1), hn::Iota(kWords, 0));
  return hn::RebindMask(kFloats, hn::TestBit(hn::Set(kWords, bits), lane_bit));
}

// Returns, for each element from i on, the table entry of its scale.
template <bool kManyScales>
HWY_INLINE FloatVector by_scale(const std::array<float, kMostScales>& entries, std::size_t scales,
                                const std::uint64_t* fits, std::size_t i) {
  FloatVector out = hn::Set(kFloats, entries[0]);
  if constexpr (kManyScales) {
    for (std::size_t k = 1; k < scales; ++k) {
      out = hn::IfThenElse(lanes_that_fit(fits + (k - 1) * kFitWords, i),
                           hn::Set(kFloats, entries[k]), out);
    }
  }
  return out;
}

// --- Rounding.

struct Rounding {  // values that all elements of a tile share
  const float* x;
  const Lattice& lattice;
  const std::uint64_t* fits;
  std::uint32_t* codes;
};

template <bool kManyScales>
HWY_INLINE void round_at(const Rounding& tile, std::size_t i, FloatVector u) {
  const FloatVector inverse =
      by_scale<kManyScales>(tile.lattice.inverse, tile.lattice.scales, tile.fits, i);
  const FloatVector scaled = hn::Mul(hn::LoadU(kFloats, tile.x + i), inverse);
  const auto top = hn::Set(kFloats, static_cast<float>(tile.lattice.levels));
  // The fraction is taken first: the sum of a large number and u would itself be rounded, which
  // changes the probability of rounding up.
  const FloatVector below = hn::Floor(scaled);
  const FloatVector up = hn::Floor(hn::Add(hn::Sub(scaled, below), u));
  const FloatVector rounded = hn::Min(hn::Max(hn::Add(below, up), hn::Neg(top)), top);
  const auto zero = hn::Set(kSigned, static_cast<std::int32_t>(tile.lattice.levels));
  const auto code = hn::Add(hn::ConvertTo(kSigned, rounded), zero);
  hn::StoreU(hn::BitCast(kWords, code), kWords, tile.codes + i);
}

// Returns u for elements whose 16 random bits are the low half of a word; the high half is ignored.
HWY_INLINE FloatVector threshold(Words bits, Words rotation) {
  const Words turned = hn::And(hn::Add(bits, rotation), hn::Set(kWords, 0xffff));
  const FloatVector value = hn::ConvertTo(kFloats, hn::BitCast(kSigned, turned));
  return hn::Mul(hn::Add(value, hn::Set(kFloats, 0.5f)), hn::Set(kFloats, 0x1.0p-16f));
}

template <bool kManyScales>
HWY_INLINE void quantize_dithered(const Rounding& tile, std::uint64_t number,
                                  const Dither& dither) {
  const Words rotation = hn::Set(kWords, dither.rotation);
  for (std::size_t part = 0; part < kTile; part += 64) {
    const std::uint64_t blocks = (number * kTile + part) / 64 * kWidth;
    for (std::size_t lane = 0; lane < kWidth; lane += hn::Lanes(kWords)) {
      const Block random = philox_at(dither, blocks + lane);
      const std::size_t i = part + lane;
      round_at<kManyScales>(tile, i, threshold(random.w0, rotation));
      round_at<kManyScales>(tile, i + 8, threshold(random.w1, rotation));
      round_at<kManyScales>(tile, i + 16, threshold(random.w2, rotation));
      round_at<kManyScales>(tile, i + 24, threshold(random.w3, rotation));
      round_at<kManyScales>(tile, i + 32, threshold(hn::ShiftRight<16>(random.w0), rotation));
      round_at<kManyScales>(tile, i + 40, threshold(hn::ShiftRight<16>(random.w1), rotation));
      round_at<kManyScales>(tile, i + 48, threshold(hn::ShiftRight<16>(random.w2), rotation));
      round_at<kManyScales>(tile, i + 56, threshold(hn::ShiftRight<16>(random.w3), rotation));
    }
  }
}

template <bool kManyScales>
HWY_INLINE void quantize_as(const Rounding& tile, std::uint64_t number, const Dither& dither) {
  if (!dither.nearest) return quantize_dithered<kManyScales>(tile, number, dither);
  const FloatVector half = hn::Set(kFloats, 0.5f);
  for (std::size_t i = 0; i < kTile; i += hn::Lanes(kFloats)) round_at<kManyScales>(tile, i, half);
}

void quantize(Floats values, std::uint64_t number, const Lattice& lattice,
              const std::uint64_t* fits, const Dither& dither, std::uint32_t* codes) {
  HWY_ALIGN float padded[kTile];
  const float* x = values.data();
  if (values.size() < kTile) {
    std::fill(std::copy(values.begin(), values.end(), padded), padded + kTile, 0.0f);
    x = padded;
  }
  const Rounding tile = {x, lattice, fits, codes};
  lattice.scales > 1 ? quantize_as<true>(tile, number, dither)
                     : quantize_as<false>(tile, number, dither);
}

// --- The other passes.

std::uint32_t highest_magnitude(Floats values) {
  const std::size_t lanes = hn::Lanes(kSigned);
  const auto bits = reinterpret_cast<const std::int32_t*>(values.data());
  const auto mask = hn::Set(kSigned, 0x7fffffff);
  // Magnitudes are below 2^31, so they may be compared as signed numbers, which every CPU supports.
  // Four independent maxima avoid that each step waits for the one before.
  auto m0 = hn::Zero(kSigned), m1 = m0, m2 = m0, m3 = m0;
  std::size_t i = 0;
  for (; i + 4 * lanes <= values.size(); i += 4 * lanes) {
    m0 = hn::Max(m0, hn::And(hn::LoadU(kSigned, bits + i), mask));
    m1 = hn::Max(m1, hn::And(hn::LoadU(kSigned, bits + i + lanes), mask));
    m2 = hn::Max(m2, hn::And(hn::LoadU(kSigned, bits + i + 2 * lanes), mask));
    m3 = hn::Max(m3, hn::And(hn::LoadU(kSigned, bits + i + 3 * lanes), mask));
  }
  const std::int32_t out =
      hn::GetLane(hn::MaxOfLanes(kSigned, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
  auto highest = static_cast<std::uint32_t>(out);
  for (; i < values.size(); ++i) highest = std::max(highest, magnitude(values[i]));
  return highest;
}

void find_fits(Floats values, const Lattice& lattice, std::uint64_t* fits) {
  HWY_ALIGN float tile[kTile];
  std::fill(std::copy(values.begin(), values.end(), tile), tile + kTile, 0.0f);
  const auto top = hn::Set(kFloats, static_cast<float>(lattice.levels));
  for (std::size_t k = 1; k < lattice.scales; ++k) {
    const auto inverse = hn::Set(kFloats, lattice.inverse[k]);
    for (std::size_t word = 0; word < kFitWords; ++word) {
      std::uint64_t bits = 0;
      for (std::size_t i = 0; i < 64; i += hn::Lanes(kFloats)) {
        const auto scaled = hn::Mul(hn::Abs(hn::LoadU(kFloats, tile + word * 64 + i)), inverse);
        std::uint8_t marked[8] = {};
        hn::StoreMaskBits(kFloats, hn::Le(scaled, top), marked);
        bits |= std::uint64_t{marked[0]} << i;
      }
      fits[(k - 1) * kFitWords + word] = bits;
    }
  }
}

template <bool kManyScales>
HWY_INLINE void dequantize_as(const std::uint32_t* codes, std::uint32_t zero,
                              const std::array<float, kMostScales>& steps, std::size_t scales,
                              const std::uint64_t* fits, float* out) {
  const Words middle = hn::Set(kWords, zero);
  for (std::size_t i = 0; i < kTile; i += hn::Lanes(kFloats)) {
    const auto away = hn::BitCast(kSigned, hn::Sub(hn::LoadU(kWords, codes + i), middle));
    const FloatVector step = by_scale<kManyScales>(steps, scales, fits, i);
    hn::StoreU(hn::Mul(hn::ConvertTo(kFloats, away), step), kFloats, out + i);
  }
}

void dequantize(const std::uint32_t* codes, std::uint32_t zero,
                const std::array<float, kMostScales>& steps, std::size_t scales,
                const std::uint64_t* fits, MutFloats tile) {
  HWY_ALIGN float padded[kTile];
  float* const out = tile.size() < kTile ? padded : tile.data();
  scales > 1 ? dequantize_as<true>(codes, zero, steps, scales, fits, out)
             : dequantize_as<false>(codes, zero, steps, scales, fits, out);
  if (tile.size() < kTile) std::copy_n(padded, tile.size(), tile.begin());
}

#endif  // HWY_SCALAR

}  // namespace thinwire::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::kernel {

HWY_EXPORT(highest_magnitude);
HWY_EXPORT(find_fits);
HWY_EXPORT(quantize);
HWY_EXPORT(dequantize);

std::uint32_t highest_magnitude(Floats values) {
  return HWY_DYNAMIC_DISPATCH(highest_magnitude)(values);
}
void find_fits(Floats tile, const Lattice& lattice, std::uint64_t* fits) {
  HWY_DYNAMIC_DISPATCH(find_fits)(tile, lattice, fits);
}
void quantize(Floats tile, std::uint64_t number, const Lattice& lattice, const std::uint64_t* fits,
              const Dither& dither, std::uint32_t* codes) {
  HWY_DYNAMIC_DISPATCH(quantize)(tile, number, lattice, fits, dither, codes);
}
void dequantize(const std::uint32_t* codes, std::uint32_t zero,
                const std::array<float, kMostScales>& steps, std::size_t scales,
                const std::uint64_t* fits, MutFloats tile) {
  HWY_DYNAMIC_DISPATCH(dequantize)(codes, zero, steps, scales, fits, tile);
}

}  // namespace thinwire::kernel
#endif
