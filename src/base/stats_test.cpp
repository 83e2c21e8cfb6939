#include "thinwire/stats.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace thinwire {
namespace {

void expect_summary(std::vector<double> samples, double median, double min, double max) {
  const Summary summary = summarize(std::move(samples));
  EXPECT_EQ(summary.median, median);
  EXPECT_EQ(summary.min, min);
  EXPECT_EQ(summary.max, max);
}

TEST(Summarize, TakesMedianAndEnds) {
  expect_summary({}, 0, 0, 0);
  expect_summary({3}, 3, 3, 3);
  expect_summary({5, 1}, 3, 1, 5);
  expect_summary({9, 1, 2}, 2, 1, 9);
  expect_summary({4, 1, 3, 2}, 2.5, 1, 4);
  expect_summary({-1, -1, -5}, -1, -5, -1);
}

RC_GTEST_PROP(SummarizeProperty, HalfOfTheSamplesLieOnEachSide,
              (const std::vector<std::int16_t>& raw)) {
  const std::vector<double> samples(raw.begin(), raw.end());
  const Summary summary = summarize(samples);
  const auto below =
      std::count_if(samples.begin(), samples.end(), [&](double x) { return x < summary.median; });
  const auto above =
      std::count_if(samples.begin(), samples.end(), [&](double x) { return x > summary.median; });
  RC_ASSERT(below <= std::ssize(samples) / 2);
  RC_ASSERT(above <= std::ssize(samples) / 2);
  if (!samples.empty()) {
    RC_ASSERT(summary.min == *std::min_element(samples.begin(), samples.end()));
    RC_ASSERT(summary.max == *std::max_element(samples.begin(), samples.end()));
  }
}

TEST(PhaseTimer, AddsItsLifetime) {
  Seconds clock{10}, field{1};
  const auto now = [&] { return clock; };
  {
    const PhaseTimer timer(now, field);
    clock += Seconds(2);
    EXPECT_EQ(field, Seconds(1));
  }
  EXPECT_EQ(field, Seconds(3));
  { const PhaseTimer timer(now, field); }
  EXPECT_EQ(field, Seconds(3));
}

}  // namespace
}  // namespace thinwire
