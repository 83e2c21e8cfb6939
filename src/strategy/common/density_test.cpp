#include "strategy/common/density.h"
#include "base/spec.h"

#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

DensitySchedule plan(std::string_view keys) {
  base::Spec spec = base::Spec::parse("topk" + std::string(keys));
  return DensitySchedule::read(spec, 0.001);
}

TEST(Density, FallsExponentiallyFromFourTimesItselfOverAFortiethOfTheRun) {
  const DensitySchedule density = plan("");
  const RunOptions run{.steps = 4000};
  EXPECT_DOUBLE_EQ(density.at(0, run), 0.004);
  EXPECT_NEAR(density.at(50, run), 0.002, 1e-12);
  EXPECT_GT(density.at(99, run), 0.001);
  EXPECT_DOUBLE_EQ(density.at(100, run), 0.001);
}

TEST(Density, StartsAtAQuarterAtMost) {
  EXPECT_DOUBLE_EQ(plan(":density=0.1").at(0, {.steps = 4000}), 0.25);
  EXPECT_DOUBLE_EQ(plan(":density=0.5").at(0, {.steps = 4000}), 0.5);
}

TEST(Density, HasNoWarmUpWithoutARunOrWhenAskedForNone) {
  EXPECT_DOUBLE_EQ(plan("").at(0, {}), 0.001);
  EXPECT_DOUBLE_EQ(plan(":warmup=none").at(0, {.steps = 1000}), 0.001);
  EXPECT_DOUBLE_EQ(plan(":warmup=0.25").at(0, {.steps = 1000}), 0.001);  // epochs are not known
}

TEST(Density, FollowsAListPerEpoch) {
  const DensitySchedule density = plan(":density=0.002,warmup=0.25+0.0625+0.004");
  const RunOptions run{.steps = 1000, .steps_per_epoch = 10};
  EXPECT_DOUBLE_EQ(density.at(9, run), 0.25);
  EXPECT_DOUBLE_EQ(density.at(10, run), 0.0625);
  EXPECT_DOUBLE_EQ(density.at(29, run), 0.004);
  EXPECT_DOUBLE_EQ(density.at(30, run), 0.002);
}

TEST(Density, RefusesWhatIsNoDensity) {
  for (const char* keys : {":warmup=", ":warmup=0.25+", ":warmup=+0.1", ":warmup=0.1+2",
                           ":warmup=0", ":warmup=nan", ":warmup=fast", ":density=0"}) {
    EXPECT_THROW(plan(keys), ConfigError) << keys;
  }
}

TEST(Density, CountsAtLeastOneElementAndAtMostAll) {
  EXPECT_EQ(plan("").count(0, 0, {}), 0u);
  EXPECT_EQ(plan("").count(5, 0, {}), 1u);
  EXPECT_EQ(plan("").count(25'000'000, 0, {}), 25'000u);
  EXPECT_EQ(plan(":density=1").count(7, 0, {}), 7u);
}

}  // namespace
}  // namespace thinwire::strategy
