// Compares selection with its reference, bit for bit, on every CPU target that this machine
// supports.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "kernel/finite.h"
#include "kernel/topk.h"
#include "kernel/topk_reference.h"
#include "testing/allocations.h"
#include "testing/cpu_targets.h"

namespace thinwire::kernel {
namespace {

enum class Kind { laplace, few_distinct, heavy, rising, falling, constant, zeros, tiny, weird };
constexpr int kKinds = 9;

// Returns element i of a vector of n elements.
float element(Kind kind, std::size_t i, std::size_t n, std::uint64_t seed) {
  const auto bits = base::philox(seed, 0, i, base::Purpose::test);
  const float sign = (bits[0] & 1) != 0 ? 1.0f : -1.0f;
  const float uniform = base::unit_float(bits[1]);
  switch (kind) {
    case Kind::laplace:
      return -sign * std::log(uniform + 1e-9f);
    case Kind::few_distinct:
      return sign * static_cast<float>(bits[1] % 3);
    case Kind::heavy:
      return sign * std::pow(uniform + 1e-7f, -3.0f);
    case Kind::rising:
      return sign * static_cast<float>(i);
    case Kind::falling:
      return sign * static_cast<float>(n - i);
    case Kind::constant:
      return sign * 0.5f;
    case Kind::zeros:
      return sign * 0.0f;
    case Kind::tiny:
      return std::bit_cast<float>((bits[0] & 0x80000000) | bits[1] >> 16);
    case Kind::weird:
      break;
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float odd[] = {0.0f,
                       1.0f,
                       kInfinity,
                       std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::max(),
                       std::numeric_limits<float>::denorm_min()};
  return std::copysign(odd[bits[1] % 6], sign);
}

std::vector<float> vector_of(Kind kind, std::size_t n, std::uint64_t seed, float scale = 1) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = element(kind, i, n, seed) * scale;
  return out;
}

// The buffers of a model, and the accumulation of one step.
struct Memory {
  explicit Memory(std::size_t n) : gradient(n), residual(n), velocity(n), params(n) {}

  Accumulation step(int variant) {
    Accumulation out{gradient, residual, {}, {}, 0, 0, false};
    if (variant % 3 != 0) {
      out.velocity = velocity;
      out.momentum = 0.9f;
      out.nesterov = variant % 3 == 2;
    }
    if (variant >= 3) {
      out.params = params;
      out.weight_decay = 1e-2f;
    }
    return out;
  }

  std::vector<float> gradient, residual, velocity, params;
};
constexpr int kVariants = 6;

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::bit_cast<std::uint32_t>(values[i]);
  return out;
}

void expect_same(const Memory& ours, const Memory& reference) {
  EXPECT_EQ(bits_of(ours.gradient), bits_of(reference.gradient));
  EXPECT_EQ(bits_of(ours.residual), bits_of(reference.residual));
  EXPECT_EQ(bits_of(ours.velocity), bits_of(reference.velocity));
}

void expect_same(const Sparse& ours, const Sparse& reference) {
  EXPECT_EQ(ours.indices, reference.indices);
  EXPECT_EQ(bits_of(ours.values), bits_of(reference.values));
}

// Runs a TopK and the reference on equal data, step after step.
struct Pair {
  explicit Pair(std::size_t n) : ours(n), reference(n) {}

  void step(const std::vector<float>& gradient, std::size_t k, int variant) {
    ours.gradient = reference.gradient = gradient;
    Sparse got;
    topk.select(ours.step(variant), k, got);
    const Sparse expected = kernel::reference::select(reference.step(variant), k);
    expect_same(got, expected);
    expect_same(ours, reference);
  }

  TopK topk;
  Memory ours, reference;
};

RC_GTEST_PROP(TopKProperty, EqualsTheReferenceAfterAnyEarlierCalls, ()) {
  const auto n = *rc::gen::inRange<std::size_t>(0, 20'000);
  const auto variant = *rc::gen::inRange(0, kVariants);
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
      4, rc::gen::tuple(rc::gen::inRange(0, kKinds), rc::gen::inRange(-6, 7),
                        rc::gen::inRange(0, 20)));
  kernel::on_every_target([&] {
    Pair pair(n);
    pair.ours.params = pair.reference.params = vector_of(Kind::laplace, n, seed + 100);
    std::uint64_t step = seed;
    for (const auto& [kind, exponent, log_k] : steps) {
      const auto scale = static_cast<float>(std::pow(10.0, exponent));
      const auto k = static_cast<std::size_t>(std::pow(1.7, log_k)) - 1;
      // The payload of the sum of two NaNs is not specified, so a second NaN must not be added.
      const bool nan = !all_finite(pair.ours.residual) || !all_finite(pair.ours.velocity);
      const auto use =
          nan && kind == static_cast<int>(Kind::weird) ? Kind::heavy : static_cast<Kind>(kind);
      pair.step(vector_of(use, n, ++step, scale), k, variant);
    }
  });
  RC_ASSERT(!testing::Test::HasFailure());
}

TEST(TopK, SmallAndExtremeLengthsAndCounts) {
  kernel::on_every_target([] {
    for (std::size_t n : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 4095, 4096, 4097, 9000}) {
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}, n / 50, n / 2, n, n + 1}) {
        for (int kind = 0; kind < kKinds; ++kind) {
          SCOPED_TRACE(testing::Message() << "n " << n << " k " << k << " kind " << kind);
          Pair pair(n);
          pair.step(vector_of(static_cast<Kind>(kind), n, 7), k, 0);
          ASSERT_FALSE(testing::Test::HasFailure());
        }
      }
    }
  });
}

TEST(TopK, EveryVariantOfAccumulation) {
  kernel::on_every_target([] {
    for (int variant = 0; variant < kVariants; ++variant) {
      SCOPED_TRACE(variant);
      Pair pair(5'003);
      pair.ours.params = pair.reference.params = vector_of(Kind::laplace, 5'003, 99);
      for (std::uint64_t step = 0; step < 4; ++step) {
        pair.step(vector_of(Kind::laplace, 5'003, step), 50, variant);
      }
    }
  });
}

// The vectors are long enough for sampling and for lists that fill up.
TEST(TopK, LongVectorsOfEveryKind) {
  constexpr std::size_t n = 300'001;
  for (int kind = 0; kind < kKinds; ++kind) {
    for (const std::size_t k : {10, 300, 8'000, 20'000}) {
      SCOPED_TRACE(testing::Message() << "kind " << kind << " k " << k);
      Pair pair(n);
      for (const float scale : {1.0f, 1e-6f}) {
        pair.step(vector_of(static_cast<Kind>(kind), n, 3, scale), k, 0);
        if (static_cast<Kind>(kind) == Kind::weird) break;
      }
    }
  }
}

TEST(TopK, UnalignedMemory) {
  std::vector<float> gradient = vector_of(Kind::laplace, 10'001, 1), residual(10'001);
  Accumulation shifted;
  shifted.gradient = MutFloats(gradient).subspan(1);
  shifted.residual = MutFloats(residual).subspan(1);
  const Sparse expected = kernel::reference::largest(shifted.gradient, 100);
  TopK topk;
  Sparse got;
  topk.select(shifted, 100, got);
  expect_same(got, expected);
}

TEST(TopK, FewCandidatesAfterTheFirstCalls) {
  constexpr std::size_t n = 400'000, k = 2'000;
  Memory memory(n);
  TopK topk;
  Sparse out;
  int rescans = 0;
  for (std::uint64_t step = 0; step < 40; ++step) {
    memory.gradient = vector_of(Kind::laplace, n, step);
    topk.select(memory.step(0), k, out);
    if (step >= 20) rescans += topk.work().rescans;
  }
  EXPECT_LT(topk.work().candidates, 3 * k);
  EXPECT_LE(rescans, 1);
}

TEST(TopK, ASuddenChangeCostsOneRescan) {
  constexpr std::size_t n = 400'000, k = 2'000;
  Memory memory(n);
  TopK topk;
  Sparse out;
  memory.gradient = vector_of(Kind::laplace, n, 1);
  topk.select(memory.step(0), k, out);
  EXPECT_EQ(topk.work().rescans, 0);
  memory.residual.assign(n, 0);
  memory.gradient = vector_of(Kind::laplace, n, 2, 1e-6f);
  topk.select(memory.step(0), k, out);
  EXPECT_EQ(topk.work().rescans, 1);
  memory.gradient = vector_of(Kind::laplace, n, 3, 1e6f);
  topk.select(memory.step(0), k, out);
  EXPECT_EQ(topk.work().rescans, 0);
  EXPECT_LT(topk.work().candidates, n / 4) << "the list must raise its threshold by itself";
}

TEST(TopK, AllocatesNothingFromTheSecondCallOn) {
  constexpr std::size_t n = 100'000;
  Memory memory(n);
  const std::vector<float> gradient = vector_of(Kind::laplace, n, 1);
  TopK topk;
  Sparse out;
  std::ranges::copy(gradient, memory.gradient.begin());
  topk.select(memory.step(0), n, out);  // room in `out` for all
  const auto before = test::allocations();
  for (const std::size_t k : {std::size_t{100}, n / 2, std::size_t{1}, std::size_t{2'000}, n}) {
    for (const float scale : {1.0f, 1e-6f, 1e6f}) {
      for (std::size_t i = 0; i < n; ++i) memory.gradient[i] = gradient[i] * scale;
      topk.select(memory.step(1), k, out);
    }
  }
  EXPECT_EQ(test::allocations(), before);
}

TEST(TopK, RefusesSpansOfUnequalLength) {
  std::vector<float> three(3), two(2);
  TopK topk;
  Sparse out;
  EXPECT_THROW(topk.select({three, two, {}, {}, 0, 0, false}, 1, out), std::invalid_argument);
  EXPECT_THROW(topk.select({three, three, two, {}, 0, 0, false}, 1, out), std::invalid_argument);
  EXPECT_THROW(topk.select({three, three, {}, {}, 0, 0.1f, false}, 1, out), std::invalid_argument);
}

}  // namespace
}  // namespace thinwire::kernel
