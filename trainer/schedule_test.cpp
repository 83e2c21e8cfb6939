#include "trainer/schedule.h"

#include <gtest/gtest.h>

#include "thinwire/error.h"

namespace thinwire::trainer {
namespace {

TEST(Schedule, Constant) {
  const auto schedule = Schedule::parse("constant", 0.5, 4);
  EXPECT_EQ(schedule.rate(0, 10), 0.5);
  EXPECT_EQ(schedule.rate(9.9, 10), 0.5);
}

TEST(Schedule, Step) {
  const auto schedule = Schedule::parse("step:every=2,factor=0.1", 1, 4);
  EXPECT_DOUBLE_EQ(schedule.rate(1.99, 10), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(2, 10), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate(5, 10), 0.01);
}

TEST(Schedule, CosineEndsAtZero) {
  const auto schedule = Schedule::parse("cosine", 1, 4);
  EXPECT_DOUBLE_EQ(schedule.rate(0, 10), 1);
  EXPECT_NEAR(schedule.rate(5, 10), 0.5, 1e-12);
  EXPECT_NEAR(schedule.rate(10, 10), 0, 1e-12);
}

TEST(Schedule, WarmUpRisesToTheScaledRate) {
  const auto schedule = Schedule::parse("constant:warmup=2,scale=linear", 0.1, 8);
  EXPECT_NEAR(schedule.rate(0, 10), 0.08, 1e-12);
  EXPECT_LT(schedule.rate(1, 10), 0.8);
  EXPECT_NEAR(schedule.rate(2, 10), 0.8, 1e-12);
}

TEST(Schedule, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(Schedule::parse("cosin", 1, 1), ConfigError);
  EXPECT_THROW(Schedule::parse("cosine:every=3", 1, 1), ConfigError);
  EXPECT_THROW(Schedule::parse("step:factor=2", 1, 1), ConfigError);
}

}  // namespace
}  // namespace thinwire::trainer
