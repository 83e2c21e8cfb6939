#include "strategy/lowrank/low_rank.h"

#include <gtest/gtest.h>

namespace thinwire::strategy {
namespace {

Layout layout_of(const std::vector<std::vector<std::size_t>>& shapes) {
  Layout out;
  for (const auto& shape : shapes) {
    out.tensors.push_back({"tensor", out.numel, shape});
    std::size_t numel = 1;
    for (const std::size_t size : shape) numel *= size;
    out.numel += numel;
  }
  return out;
}

TEST(LowRankLayout, CompressesWhatItAtLeastHalves) {
  // 2 r (n + m) <= n m
  EXPECT_EQ(low_rank_layout(layout_of({{4, 4}}), 1).matrices.size(), 1u);
  EXPECT_EQ(low_rank_layout(layout_of({{4, 3}}), 1).matrices.size(), 0u);
  EXPECT_EQ(low_rank_layout(layout_of({{3, 6}}), 1).matrices.size(), 1u);
  EXPECT_EQ(low_rank_layout(layout_of({{2, 1000}}), 1).matrices.size(), 0u);
  EXPECT_EQ(low_rank_layout(layout_of({{1000}}), 1).matrices.size(), 0u);
  EXPECT_EQ(low_rank_layout(layout_of({{8, 8}}), 2).matrices.size(), 1u);
  EXPECT_EQ(low_rank_layout(layout_of({{8, 8}}), 3).matrices.size(), 0u);
  EXPECT_EQ(low_rank_layout(layout_of({{128, 128}}), 32).matrices.size(), 1u);
}

TEST(LowRankLayout, AConvolutionHasARowPerOutput) {
  const LowRankLayout result = low_rank_layout(layout_of({{64, 3, 7, 7}}), 2);
  ASSERT_EQ(result.matrices.size(), 1u);
  EXPECT_EQ(result.matrices[0].shape.rows, 64u);
  EXPECT_EQ(result.matrices[0].shape.columns, 147u);
  EXPECT_EQ(result.p_numel, 128u);
  EXPECT_EQ(result.q_numel, 294u);
}

TEST(LowRankLayout, LaysEverythingOutWithoutGaps) {
  const Layout layout = layout_of({{7}, {}, {10, 20}, {5}, {30, 4, 5}, {0, 9}, {3, 3}, {2}});
  const LowRankLayout result = low_rank_layout(layout, 2);
  ASSERT_EQ(result.matrices.size(), 2u);
  EXPECT_EQ(result.matrices[0].gradient, 8u);
  EXPECT_EQ(result.matrices[1].gradient, 213u);
  EXPECT_EQ(result.matrices[1].error, 200u);
  EXPECT_EQ(result.matrices[1].p, 20u);
  EXPECT_EQ(result.matrices[1].q, 40u);
  EXPECT_EQ(result.error_numel, 800u);
  EXPECT_EQ(result.p_numel, 20u + 60u);
  EXPECT_EQ(result.q_numel, 40u + 40u);
  ASSERT_EQ(result.exact.size(), 3u);  // neighbours are one range
  EXPECT_EQ(result.exact[0].size, 8u);
  EXPECT_EQ(result.exact[1].begin, 208u);
  EXPECT_EQ(result.exact[2].begin, 813u);
  EXPECT_EQ(result.exact[2].size, 11u);
  EXPECT_EQ(result.exact_numel + result.error_numel, layout.numel);
}

TEST(LowRankLayout, KeepsTheErrorMemoryOfAMatrixThatPaysNoMore) {
  const Layout layout = layout_of({{4, 4}, {5}, {40, 30}});
  const LowRankLayout result = low_rank_layout(layout, 4, 1);
  ASSERT_EQ(result.matrices.size(), 1u);
  EXPECT_EQ(result.matrices[0].error, 16u);
  EXPECT_EQ(result.error_numel, 16u + 1200);
  ASSERT_EQ(result.exact.size(), 2u);  // the range with an error memory is not joined with others
  EXPECT_TRUE(result.exact[0].has_error);
  EXPECT_FALSE(result.exact[1].has_error);
  EXPECT_EQ(result.exact_numel, 21u);
}

}  // namespace
}  // namespace thinwire::strategy
