// Laws of sums and cuts of sparse vectors, and of the cutoff that both selections rest on.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "kernel/cutoff.h"
#include "kernel/finite.h"
#include "kernel/magnitude.h"
#include "kernel/sparse.h"
#include "kernel/topk_reference.h"
#include "testing/allocations.h"

namespace thinwire::kernel {
namespace {

// Generates few different indices and magnitudes, so that indices coincide and magnitudes tie.
Sparse any_sparse() {
  const auto entries = *rc::gen::container<std::map<std::uint32_t, int>>(
      rc::gen::inRange<std::uint32_t>(0, 200), rc::gen::inRange(-4, 5));
  Sparse out;
  for (const auto& [index, value] : entries) out.push_back(index, static_cast<float>(value) / 4);
  return out;
}

std::map<std::uint32_t, float> as_map(const Sparse& entries) {
  std::map<std::uint32_t, float> out;
  for (std::size_t i = 0; i < entries.size(); ++i) out[entries.indices[i]] = entries.values[i];
  return out;
}

RC_GTEST_PROP(SparseProperty, MergeIsTheSum, ()) {
  const Sparse a = any_sparse(), b = any_sparse();
  Sparse got = any_sparse();  // old contents must not matter
  kernel::merge(a, b, got);
  auto sum = as_map(a);
  for (const auto& [index, value] : as_map(b)) {
    sum[index] = sum.contains(index) ? sum[index] + value : value;
  }
  RC_ASSERT(as_map(got) == sum);
  RC_ASSERT(got.size() == sum.size());
  RC_ASSERT(std::ranges::is_sorted(got.indices));

  Sparse swapped;
  kernel::merge(b, a, swapped);
  RC_ASSERT(swapped == got);
}

RC_GTEST_PROP(SparseProperty, CutKeepsTheLargestAndLosesNothing, ()) {
  const Sparse before = any_sparse();
  const auto k = *rc::gen::inRange<std::size_t>(0, 220);
  Sparse kept = before, dropped = any_sparse();
  kernel::cut(kept, k, dropped);

  Sparse expected;  // the indices of `largest` are positions
  for (const std::uint32_t i : kernel::reference::largest(before.values, k).indices) {
    expected.push_back(before.indices[i], before.values[i]);
  }
  RC_ASSERT(kept == expected);
  Sparse all;
  kernel::merge(kept, dropped, all);
  RC_ASSERT(all == before);
}

RC_GTEST_PROP(SparseProperty, TheCutoffSplitsAnyBits, ()) {
  const auto bits = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::uint32_t>>(
      rc::gen::oneOf(rc::gen::arbitrary<std::uint32_t>(), rc::gen::inRange<std::uint32_t>(0, 3),
                     rc::gen::element<std::uint32_t>(0x3f800000, 0xbf800000, 0x7f800000, 0xffffffff,
                                                     0x80000000))));
  std::vector<float> values;
  for (const std::uint32_t x : bits) values.push_back(std::bit_cast<float>(x));
  const auto k = *rc::gen::inRange<std::size_t>(1, values.size() + 1);
  const kernel::Cutoff cutoff = kernel::find_cutoff(values, k);
  const auto above = std::ranges::count_if(
      values, [&](float x) { return kernel::magnitude(x) > cutoff.magnitude; });
  const auto equal = std::ranges::count_if(
      values, [&](float x) { return kernel::magnitude(x) == cutoff.magnitude; });
  RC_ASSERT(static_cast<std::size_t>(above) + cutoff.ties == k);
  RC_ASSERT(cutoff.ties >= 1u);
  RC_ASSERT(cutoff.ties <= static_cast<std::size_t>(equal));
}

TEST(Sparse, EntriesThatCancelRemain) {
  Sparse out;
  merge({{3, 5}, {1.0f, 2.0f}}, {{5}, {-2.0f}}, out);
  EXPECT_EQ(out, (Sparse{{3, 5}, {1.0f, 0.0f}}));
}

TEST(Sparse, NothingIsAllocatedFromTheSecondCallOn) {
  Sparse a, b, sum, dropped;
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    a.push_back(2 * i, static_cast<float>(i));
    b.push_back(3 * i, static_cast<float>(i));
  }
  kernel::merge(a, b, sum);
  kernel::cut(sum, 500, dropped);
  const auto before = test::allocations();
  kernel::merge(a, b, sum);
  kernel::cut(sum, 500, dropped);
  EXPECT_EQ(test::allocations(), before);
}

TEST(AllFinite, FindsASingleNonFiniteValue) {
  for (const std::size_t n : {1, 2, 31, 4'095, 4'096, 4'097, 10'000}) {
    std::vector<float> values(n, std::numeric_limits<float>::max());
    EXPECT_TRUE(all_finite(values));
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      for (const float bad :
           {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
            std::numeric_limits<float>::quiet_NaN()}) {
        const float good = std::exchange(values[at], bad);
        EXPECT_FALSE(all_finite(values)) << n << " " << at;
        values[at] = good;
      }
    }
  }
  EXPECT_TRUE(all_finite({}));
}

}  // namespace
}  // namespace thinwire::kernel
