#include "kernel/orthonormal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/hash.h"
#include "base/random.h"

namespace thinwire::kernel {
namespace {

constexpr Draw kSpare{1, 2, 3};

std::vector<float> random_vectors(std::size_t length, std::size_t count, float scale = 1) {
  std::vector<float> out(length * count);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = scale * (2 * base::unit_float(base::philox(5, 0, i, base::Purpose::test)[0]) - 1);
  }
  return out;
}

double dot(const std::vector<float>& vectors, std::size_t length, std::size_t a, std::size_t b) {
  double sum = 0;
  for (std::size_t i = 0; i < length; ++i) {
    sum +=
        static_cast<double>(vectors[a * length + i]) * static_cast<double>(vectors[b * length + i]);
  }
  return sum;
}

// Rounding to floats changes an element by at most 2^-24 of its value, and so the product of two
// unit vectors by 2^-23. The bound leaves a little more for the rounding of doubles.
void expect_orthonormal(const std::vector<float>& vectors, std::size_t length) {
  const std::size_t count = vectors.size() / length;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      ASSERT_NEAR(dot(vectors, length, a, b), a == b ? 1 : 0, 0x1.1p-23) << a << ", " << b;
    }
  }
}

std::size_t orthonormalized(std::vector<float>& vectors, std::size_t length) {
  std::vector<double> scratch(vectors.size());
  return orthonormalize(vectors, length, kSpare, scratch);
}

TEST(Orthonormal, VectorsOfAnyLengthAndScale) {
  for (const float scale : {1.0f, 1e-30f, 1e-44f, 1e37f}) {
    for (const std::size_t count : {1u, 2u, 5u, 32u}) {
      for (const std::size_t length : {33u, 64u, 71u, 1000u}) {
        auto vectors = random_vectors(length, count, scale);
        const auto before = vectors;
        EXPECT_EQ(orthonormalized(vectors, length), 0u);
        expect_orthonormal(vectors, length);
        // The first vector keeps its direction.
        const double norm = std::sqrt(squared_norm(Floats(before).first(length)));
        for (std::size_t i = 0; i < length; ++i) {
          ASSERT_NEAR(vectors[i], static_cast<double>(before[i]) / norm, 1e-7);
        }
      }
    }
  }
}

TEST(Orthonormal, VectorsOfVeryDifferentScales) {
  const std::size_t length = 100;
  auto vectors = random_vectors(length, 4);
  const float scales[] = {1e-35f, 1e30f, 1e-12f, 1};
  for (std::size_t i = 0; i < vectors.size(); ++i) vectors[i] *= scales[i / length];
  EXPECT_EQ(orthonormalized(vectors, length), 0u);
  expect_orthonormal(vectors, length);
}

TEST(Orthonormal, NearlyParallelVectors) {
  const std::size_t length = 500;
  auto vectors = random_vectors(length, 3);
  for (std::size_t i = 0; i < length; ++i) vectors[length + i] = vectors[i] * (i == 7 ? 1.01f : 1);
  EXPECT_EQ(orthonormalized(vectors, length), 0u);
  expect_orthonormal(vectors, length);
}

TEST(Orthonormal, DependentVectorsAreReplaced) {
  const std::size_t length = 40;
  auto vectors = random_vectors(length, 5);
  for (std::size_t i = 0; i < length; ++i) {
    vectors[1 * length + i] = 0;
    vectors[2 * length + i] = -3 * vectors[i];                       // parallel up to rounding
    vectors[4 * length + i] = vectors[i] + vectors[3 * length + i];  // in the plane of two
  }
  EXPECT_EQ(orthonormalized(vectors, length), 3u);
  expect_orthonormal(vectors, length);

  std::vector<float> zeros(length * 5, 0.0f);
  EXPECT_EQ(orthonormalized(zeros, length), 5u);
  expect_orthonormal(zeros, length);
  auto again = std::vector<float>(length * 5, -0.0f);
  orthonormalized(again, length);
  EXPECT_EQ(again, zeros);
}

// Ranks on different CPUs must get the same bits, because they do not exchange them.
TEST(Orthonormal, BitsAreTheSameEverywhere) {
  auto vectors = random_vectors(101, 4);
  std::fill_n(vectors.begin() + 202, 101, 0.0f);
  orthonormalized(vectors, 101);
  EXPECT_EQ(base::hash64(std::as_bytes(std::span(vectors))), 3115419620839447928u);
}

TEST(Orthonormal, RescalingIsByPowersOfTwo) {
  const std::size_t length = 50;
  for (const float scale : {1.0f, 3e-20f, 5e30f}) {
    auto vectors = random_vectors(length, 2, scale);
    const auto before = vectors;
    rescale(vectors, length, kSpare);
    for (std::size_t v = 0; v < 2; ++v) {
      const double norm = std::sqrt(dot(vectors, length, v, v));
      EXPECT_GE(norm, 0.5);
      EXPECT_LE(norm, 1.5);
      int exponent = 0;
      const float ratio = vectors[v * length] / before[v * length];
      EXPECT_EQ(std::frexp(ratio, &exponent), 0.5f);
      for (std::size_t i = v * length; i < (v + 1) * length; ++i) {
        ASSERT_EQ(vectors[i], std::ldexp(before[i], exponent - 1));
      }
    }
  }
}

TEST(Orthonormal, RescalingReplacesZeroAndNonFiniteVectors) {
  const std::size_t length = 50;
  for (const float useless :
       {0.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    auto vectors = random_vectors(length, 3);
    const auto before = vectors;
    std::fill_n(vectors.begin() + length, length, useless);
    rescale(vectors, length, kSpare);
    EXPECT_GE(dot(vectors, length, 1, 1), 0.25);
    EXPECT_LE(dot(vectors, length, 1, 1), 2.25);
    EXPECT_LE(std::abs(dot(vectors, length, 0, 1)), 0.9);
    EXPECT_LE(std::abs(dot(vectors, length, 1, 2)), 0.9);
  }
}

}  // namespace
}  // namespace thinwire::kernel
