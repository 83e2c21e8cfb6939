// Compares the passes of PowerSGD with their reference, bit for bit, on every CPU target that this
// machine supports.
#include "kernel/power.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kernel/power_reference.h"
#include "testing/cpu_targets.h"

namespace thinwire::kernel {
namespace {

enum class Kind { uniform, wide, tiny, few_distinct };
constexpr int kKinds = 4;

float element(Kind kind, const std::array<std::uint32_t, 4>& bits) {
  const float uniform = 2 * base::unit_float(bits[0]) - 1;
  switch (kind) {
    case Kind::uniform:
      return uniform;
    case Kind::wide:  // no product or sum of these leaves the range of floats
      return std::ldexp(uniform, static_cast<int>(bits[1] % 100) - 50);
    case Kind::tiny:
      return std::bit_cast<float>((bits[0] & 0x80000000) | bits[1] >> 10);
    case Kind::few_distinct:
      break;
  }
  return static_cast<float>(static_cast<int>(bits[0] % 3) - 1);
}

std::vector<float> floats(Kind kind, std::size_t size, std::uint64_t stream) {
  std::vector<float> out(size);
  for (std::size_t i = 0; i < size; ++i)
    out[i] = element(kind, base::philox(3, stream, i, base::Purpose::test));
  return out;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::bit_cast<std::uint32_t>(values[i]);
  return out;
}

// The memory that the passes read and write.
struct Memory {
  Memory(const LowRankShape& shape, Kind kind, std::uint64_t stream)
      : gradient(floats(kind, shape.numel(), stream)),
        error(floats(kind, shape.numel(), stream + 1)),
        p(floats(kind, shape.p_numel(), stream + 2)),
        q(floats(kind, shape.q_numel(), stream + 3)),
        mean(floats(kind, shape.q_numel(), stream + 4)) {}

  std::vector<float> gradient, error, p, q, mean;
};

void expect_same(const Memory& ours, const Memory& reference) {
  EXPECT_EQ(bits_of(ours.gradient), bits_of(reference.gradient));
  EXPECT_EQ(bits_of(ours.error), bits_of(reference.error));
  EXPECT_EQ(bits_of(ours.p), bits_of(reference.p));
  EXPECT_EQ(bits_of(ours.q), bits_of(reference.q));
}

void expect_reference(const LowRankShape& shape, Kind kind, std::uint64_t stream) {
  SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.columns << ", rank " << shape.rank
                                  << ", kind " << static_cast<int>(kind));
  // Each pass starts from fresh memory, because products of products would leave the range of
  // floats.
  const Memory start(shape, kind, stream);
  Memory projected = start, back = start, rebuilt = start;
  reference::project(shape, projected.error, projected.gradient, projected.q, projected.p);
  reference::project_back(shape, back.gradient, back.p, back.q);
  reference::reconstruct(shape, rebuilt.p, rebuilt.q, rebuilt.mean, rebuilt.gradient,
                         rebuilt.error);
  on_every_target([&] {
    Memory ours = start;
    project(shape, ours.error, ours.gradient, ours.q, ours.p);
    expect_same(ours, projected);
    ours = start;
    project_back(shape, ours.gradient, ours.p, ours.q);
    expect_same(ours, back);
    ours = start;
    reconstruct(shape, ours.p, ours.q, ours.mean, ours.gradient, ours.error);
    expect_same(ours, rebuilt);
  });
}

TEST(PowerPasses, EqualTheReferenceForAllShapes) {
  for (const std::size_t rows : {1u, 4u, 7u}) {
    for (const std::size_t columns :
         {1u, 3u, 4u, 7u, 8u, 9u, 31u, 32u, 1023u, 1024u, 1029u, 2100u}) {
      for (const std::size_t rank : {1u, 2u, 3u, 4u, 7u, 32u}) {
        expect_reference({rows, columns, rank}, Kind::uniform, rows * columns + rank);
      }
    }
  }
}

RC_GTEST_PROP(PowerPassesProperty, EqualTheReference, ()) {
  const LowRankShape shape{*rc::gen::inRange<std::size_t>(1, 40),
                           *rc::gen::inRange<std::size_t>(1, 300),
                           *rc::gen::inRange<std::size_t>(1, kMostRank + 1)};
  const auto kind = static_cast<Kind>(*rc::gen::inRange(0, kKinds));
  expect_reference(shape, kind, *rc::gen::arbitrary<std::uint32_t>());
  RC_ASSERT(!testing::Test::HasFailure());
}

// Compares the reference with plain products of matrices.
TEST(PowerPasses, AreProductsOfMatrices) {
  const LowRankShape shape{23, 77, 3};
  const Memory start(shape, Kind::uniform, 1);
  Memory now = start;
  project(shape, now.error, now.gradient, now.q, now.p);
  const auto m = [&](std::size_t row, std::size_t column) {
    const std::size_t i = row * shape.columns + column;
    return static_cast<double>(start.gradient[i]) + static_cast<double>(start.error[i]);
  };
  for (std::size_t k = 0; k < shape.rank; ++k) {
    for (std::size_t row = 0; row < shape.rows; ++row) {
      double sum = 0;
      for (std::size_t j = 0; j < shape.columns; ++j) {
        sum += m(row, j) * static_cast<double>(start.q[k * shape.columns + j]);
      }
      EXPECT_NEAR(now.p[k * shape.rows + row], sum, 1e-5);
    }
  }
  project_back(shape, now.gradient, start.p, now.q);
  for (std::size_t k = 0; k < shape.rank; ++k) {
    for (std::size_t j = 0; j < shape.columns; ++j) {
      double sum = 0;
      for (std::size_t row = 0; row < shape.rows; ++row) {
        sum += m(row, j) * static_cast<double>(start.p[k * shape.rows + row]);
      }
      EXPECT_NEAR(now.q[k * shape.columns + j], sum, 1e-5);
    }
  }
  reconstruct(shape, start.p, start.q, start.mean, now.gradient, now.error);
  for (std::size_t row = 0; row < shape.rows; ++row) {
    for (std::size_t j = 0; j < shape.columns; ++j) {
      double own = 0, mean = 0;
      for (std::size_t k = 0; k < shape.rank; ++k) {
        const auto weight = static_cast<double>(start.p[k * shape.rows + row]);
        own += weight * static_cast<double>(start.q[k * shape.columns + j]);
        mean += weight * static_cast<double>(start.mean[k * shape.columns + j]);
      }
      EXPECT_NEAR(now.gradient[row * shape.columns + j], mean, 1e-5);
      EXPECT_NEAR(now.error[row * shape.columns + j], m(row, j) - own, 1e-5);
    }
  }
}

// This holds even if Q is 0, because 0 times infinity is NaN.
TEST(PowerPasses, MakePNonFiniteIfTheMatrixIs) {
  const LowRankShape shape{6, 50, 2};
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (std::size_t i = 0; i < shape.numel(); i += 7) {
      on_every_target([&] {
        Memory memory(shape, Kind::few_distinct, 1);
        memory.gradient[i] = bad;
        project(shape, memory.error, memory.gradient, memory.q, memory.p);
        EXPECT_FALSE(std::isfinite(memory.p[i / shape.columns]));
      });
    }
  }
}

}  // namespace
}  // namespace thinwire::kernel
