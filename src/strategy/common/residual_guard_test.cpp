#include "strategy/common/residual_guard.h"

#include <gtest/gtest.h>

#include <cmath>

namespace thinwire::strategy {
namespace {

constexpr double kDensity = 0.01;  // windows of 101 steps

using Norm = double (*)(double step);

int warnings(
    Norm residual, std::uint64_t steps, Norm gradient = [](double) { return 1.0; }) {
  ResidualGuard guard;
  int count = 0;
  for (std::uint64_t step = 0; step < steps; step += 16) {
    const auto now = static_cast<double>(step);
    if (!guard.observe(step, residual(now), gradient(now), kDensity).empty()) ++count;
  }
  return count;
}

TEST(ResidualGuard, IsSilentWhileAResidualFillsUpAndWhenItIsFull) {
  EXPECT_EQ(warnings([](double step) { return 50 * (1 - std::exp(-step / 100)); }, 100'000), 0);
  EXPECT_EQ(warnings([](double step) { return 50 + 10 * std::sin(step); }, 100'000), 0);
}

TEST(ResidualGuard, IsSilentWhenGradientsVanish) {
  EXPECT_EQ(warnings([](double) { return 50.0; }, 10'000,
                     [](double step) { return std::exp(-step / 150); }),
            0);
}

TEST(ResidualGuard, WarnsOfExponentialGrowthAgainAtEachDoubling) {
  const int count = warnings([](double step) { return std::exp(step / 150); }, 3000);
  EXPECT_GE(count, 10);
  EXPECT_LE(count, 30);
}

TEST(ResidualGuard, SaysWhatToDo) {
  ResidualGuard guard;
  std::string text;
  for (std::uint64_t step = 0; text.empty(); step += 16) {
    ASSERT_LT(step, 10'000u);
    text = guard.observe(step, std::exp(static_cast<double>(step) / 150), 1, kDensity);
  }
  for (const char* part : {"times the gradient", "density", "learning rate", "warm-up"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace thinwire::strategy
