#include "collective/reduction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing/ranks.h"

namespace thinwire::collective {
namespace {

const std::size_t kLengths[] = {0,  1,  2,  3,  4,  5,  7,   8,   9,   15,  16,
                                17, 31, 32, 33, 63, 70, 255, 256, 257, 4097};

// Two ranks compute the same sum: on one of them the received data is the lower operand, on the
// other the higher one, at any alignment. The sum of two NaNs must have the payload of the lower
// one.
TEST(Reduction, SumHasTheSameBitsForAnyPlacementOfItsOperands) {
  const Reduction sum = make_reduction<Sum, float>(0);
  for (const std::size_t n : kLengths) {
    const std::vector<float> lower = test::wild_floats(1, 0, n),
                             higher = test::wild_floats(1, 1, n);
    std::vector<float> expected(n);
    const auto bytes = [](auto* floats) { return reinterpret_cast<std::byte*>(floats); };
    const auto raw = [](const float* floats) { return reinterpret_cast<const std::byte*>(floats); };
    sum.combine(raw(lower.data()), raw(higher.data()), bytes(expected.data()), n);
    for (std::size_t i = 0; i < n; ++i) {
      const float one = lower[i] + higher[i];
      ASSERT_TRUE(test::same_bits({&one, 1}, {&expected[i], 1}) ||
                  (std::isnan(one) && std::isnan(expected[i])));
    }
    for (std::size_t shift = 0; shift < 8; ++shift) {
      std::vector<float> room(n + 8), other(n + 8);
      const auto at = [&](std::vector<float>& v, std::size_t by) { return v.data() + by; };
      std::copy(lower.begin(), lower.end(), at(room, shift));
      sum.combine(bytes(at(room, shift)), raw(higher.data()), bytes(at(room, shift)), n);
      ASSERT_TRUE(test::same_bits({at(room, shift), n}, expected)) << n << " into lower, " << shift;
      std::copy(higher.begin(), higher.end(), at(room, shift));
      std::copy(lower.begin(), lower.end(), at(other, 7 - shift));
      sum.combine(bytes(at(other, 7 - shift)), bytes(at(room, shift)), bytes(at(room, shift)), n);
      ASSERT_TRUE(test::same_bits({at(room, shift), n}, expected))
          << n << " into higher, " << shift;
    }
  }
}

template <class T>
class IntegerReduction : public testing::Test {};
using Integers = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(IntegerReduction, Integers);

TYPED_TEST(IntegerReduction, IsExactAndWraps) {
  using T = TypeParam;
  for (const std::size_t n : kLengths) {
    std::vector<T> a(n), b(n), out(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto random = base::philox(2, 0, i, base::Purpose::test);
      a[i] = static_cast<T>(random[0] * 0x1'0000'0001u);
      b[i] = static_cast<T>(std::numeric_limits<T>::max() - random[1] % 5);
    }
    const auto check = [&](const Reduction& reduction, auto op) {
      ASSERT_EQ(reduction.element_bytes, sizeof(T));
      reduction.combine(reinterpret_cast<const std::byte*>(a.data()),
                        reinterpret_cast<const std::byte*>(b.data()),
                        reinterpret_cast<std::byte*>(out.data()), n);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], static_cast<T>(op(a[i], b[i])));
    };
    check(make_reduction<Sum, T>(0), [](T x, T y) { return x + y; });
    check(make_reduction<Max, T>(0), [](T x, T y) { return x > y ? x : y; });
    check(make_reduction<Min, T>(0), [](T x, T y) { return x < y ? x : y; });
    check(make_reduction<And, T>(0), [](T x, T y) { return x & y; });
  }
}

}  // namespace
}  // namespace thinwire::collective
