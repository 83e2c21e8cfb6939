// Compares rounding and packing with the reference, bit for bit, on every CPU target that this
// machine supports, and checks the mean and the variance of stochastic rounding.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kernel/bitpack.h"
#include "kernel/quantize_reference.h"
#include "testing/cpu_targets.h"

namespace thinwire::kernel {
namespace {

constexpr std::size_t kLengths[] = {0, 1, 3, 8, 63, 64, 65, 255, 256};

std::vector<float> gradients(std::size_t n, std::uint64_t seed) {
  std::vector<float> out;
  for (std::size_t i = 0; i < n; ++i) {
    const auto random = base::philox(seed, 7, i, base::Purpose::test);
    const float size =
        base::unit_float(random[0]) * std::ldexp(1.0f, -static_cast<int>(random[2] % 8));
    out.push_back((random[1] & 1) != 0 ? size : -size);
  }
  return out;
}

Lattice lattice_of(float norm, std::vector<unsigned> bits) {
  Lattice out;
  out.levels = (1u << bits[0]) - 1;
  out.scales = bits.size();
  for (std::size_t k = 0; k < bits.size(); ++k) {
    out.inverse[k] = static_cast<float>((1u << bits[k]) - 1) / norm;
  }
  return out;
}

const std::vector<std::vector<unsigned>> kScales = {{1},  {2},    {4},        {8},
                                                    {12}, {2, 6}, {4, 8, 12}, {1, 3, 5, 7}};

TEST(Quantize, EqualsItsReferenceOnEveryTarget) {
  on_every_target([] {
    for (const auto& bits : kScales) {
      for (const std::size_t n : kLengths) {
        for (const std::uint64_t number : {0ull, 1ull, 77ull, (1ull << 30) + 5}) {
          const std::vector<float> tile = gradients(n, n + number);
          const Lattice lattice = lattice_of(1, bits);
          std::array<std::uint64_t, (kMostScales - 1) * kFitWords> fits{}, fits_wanted{};
          find_fits(tile, lattice, fits.data());
          reference::find_fits(tile, lattice, fits_wanted.data());
          ASSERT_EQ(fits, fits_wanted);
          for (const Dither dither :
               {Dither{1, 2, 0, false}, Dither{~0ull, 1ull << 40, 0xffff, false},
                Dither{0, 0, 0, true}}) {
            std::array<std::uint32_t, kTile> codes{}, wanted{};
            quantize(tile, number, lattice, fits.data(), dither, codes.data());
            reference::quantize(tile, number, lattice, fits.data(), dither, wanted.data());
            ASSERT_EQ(codes, wanted);
            for (std::size_t i = 0; i < kTile; ++i) {
              ASSERT_LE(codes[i], 2 * lattice.levels);
              ASSERT_TRUE(i < n || codes[i] == lattice.levels);
            }
            std::vector<float> back(n), back_wanted(n);
            const std::array<float, kMostScales> steps = {0.5f, 0.25f, 0.1f, 1e-3f};
            dequantize(codes.data(), lattice.levels, steps, lattice.scales, fits.data(), back);
            reference::dequantize(codes.data(), lattice.levels, steps, lattice.scales, fits.data(),
                                  back_wanted);
            ASSERT_EQ(back, back_wanted);
          }
        }
      }
    }
  });
}

TEST(Quantize, PackingEqualsItsReferenceAtEveryWidth) {
  on_every_target([] {
    for (unsigned width = 1; width <= kWidestCode; ++width) {
      std::array<std::uint32_t, kTile> codes{}, back{}, sums{};
      for (std::size_t i = 0; i < kTile; ++i) {
        codes[i] = base::philox(width, 0, i, base::Purpose::test)[0] & ((1u << width) - 1);
        sums[i] = static_cast<std::uint32_t>(i);
      }
      std::vector<std::uint32_t> words(packed_words(width) + 1, 0xdeadbeef), wanted = words;
      pack(codes.data(), width, words.data());
      reference::pack(codes.data(), width, wanted.data());
      ASSERT_EQ(words, wanted) << width;
      unpack(words.data(), width, back.data());
      ASSERT_EQ(back, codes) << width;
      reference::unpack(words.data(), width, back.data());
      ASSERT_EQ(back, codes) << width;
      unpack_add(words.data(), width, sums.data());
      for (std::size_t i = 0; i < kTile; ++i) ASSERT_EQ(sums[i], codes[i] + i);
    }
  });
}

TEST(Quantize, TheHighestMagnitudeConsidersEveryElement) {
  on_every_target([] {
    for (const std::size_t n : {1u, 7u, 31u, 32u, 33u, 100u}) {
      for (std::size_t at = 0; at < n; ++at) {
        std::vector<float> values = gradients(n, at);
        for (const float special : {-2.0f, std::numeric_limits<float>::infinity(),
                                    -std::numeric_limits<float>::quiet_NaN()}) {
          values[at] = special;
          ASSERT_EQ(highest_magnitude(values), reference::highest_magnitude(values));
          ASSERT_EQ(highest_magnitude(values), std::bit_cast<std::uint32_t>(special) & 0x7fffffff);
        }
      }
    }
    EXPECT_EQ(highest_magnitude({}), 0u);
  });
}

// --- Statistics. The numbers are functions of the seed: a test that passes, passes always.

// The mean and the variance of the integers to which x, in steps of the lattice, is rounded.
struct Moments {
  double mean = 0, variance = 0;
};
Moments moments(float x, std::uint32_t levels, int draws) {
  const std::vector<float> tile(kTile, x);
  Lattice lattice;
  lattice.levels = levels;
  lattice.inverse[0] = 1;
  double sum = 0, squares = 0;
  for (int draw = 0; draw < draws; ++draw) {
    std::array<std::uint32_t, kTile> codes{};
    quantize(tile, static_cast<std::uint64_t>(draw), lattice, nullptr, {3, 4, 0, false},
             codes.data());
    for (const std::uint32_t code : codes) {
      const double q = static_cast<double>(code) - levels;
      sum += q, squares += q * q;
    }
  }
  const double n = static_cast<double>(draws) * kTile;
  return {sum / n, squares / n - sum / n * sum / n};
}

TEST(Quantize, RoundingIsUnbiasedWithTheVarianceOfTheFormula) {
  constexpr int kDraws = 400;  // of a tile: 1e5 numbers
  for (const float x :
       {0.0f, 0.01f, 0.25f, 0.5f, 0.999f, -0.3f, 1.0f, 2.75f, -2.999f, 3.0f, -3.0f}) {
    const double f = x - std::floor(x);
    const double variance = f * (1 - f), n = kDraws * static_cast<double>(kTile);
    const Moments found = moments(x, 3, kDraws);
    EXPECT_NEAR(found.mean, x, 4 * std::sqrt(variance / n) + 1e-5) << x;
    EXPECT_NEAR(found.variance, variance, 0.01) << x;
  }
}

TEST(Quantize, TheThresholdsOfAnElementAreUniformAndRotate) {
  std::array<int, 16> counts{};
  for (std::uint64_t i = 0; i < 1 << 16; ++i) {
    const std::uint32_t plain = reference::threshold({5, 6, 0, false}, i);
    const std::uint32_t turned = reference::threshold({5, 6, 0x4000, false}, i);
    ASSERT_EQ(turned, (plain + 0x4000) & 0xffff);
    ++counts[plain >> 12];
  }
  for (const int count : counts) EXPECT_NEAR(count, 4096, 4 * 64);
}

}  // namespace
}  // namespace thinwire::kernel
