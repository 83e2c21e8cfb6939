#include "strategy/common/density.h"
#include "base/spec.h"

#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

DensitySchedule schedule(std::string_view keys) {
  base::Spec spec = base::Spec::parse("topk" + std::string(keys));
  const double target = spec.number("density", 0.001, DensitySchedule::kLowest, 1);
  DensitySchedule out = DensitySchedule::read(spec);
  out.set_target(target);
  return out;
}

TEST(Density, FallsExponentiallyFromFourTimesItselfOverAFortiethOfTheRun) {
  const DensitySchedule density = schedule("");
  const RunOptions run{.steps = 4000};
  EXPECT_DOUBLE_EQ(density.at(0, run), 0.004);
  EXPECT_NEAR(density.at(50, run), 0.002, 1e-12);
  EXPECT_GT(density.at(99, run), 0.001);
  EXPECT_DOUBLE_EQ(density.at(100, run), 0.001);
}

TEST(Density, StartsAtAQuarterAtMost) {
  EXPECT_DOUBLE_EQ(schedule(":density=0.1").at(0, {.steps = 4000}), 0.25);
  EXPECT_DOUBLE_EQ(schedule(":density=0.5").at(0, {.steps = 4000}), 0.5);
}

TEST(Density, HasNoWarmUpWithoutARunOrWhenAskedForNone) {
  EXPECT_DOUBLE_EQ(schedule("").at(0, {}), 0.001);
  EXPECT_DOUBLE_EQ(schedule(":warmup=none").at(0, {.steps = 1000}), 0.001);
  EXPECT_DOUBLE_EQ(schedule(":warmup=0.25").at(0, {.steps = 1000}), 0.001);  // epochs are not known
}

TEST(Density, FollowsAListPerEpoch) {
  const DensitySchedule density = schedule(":density=0.002,warmup=0.25+0.0625+0.004");
  const RunOptions run{.steps = 1000, .steps_per_epoch = 10};
  EXPECT_DOUBLE_EQ(density.at(9, run), 0.25);
  EXPECT_DOUBLE_EQ(density.at(10, run), 0.0625);
  EXPECT_DOUBLE_EQ(density.at(29, run), 0.004);
  EXPECT_DOUBLE_EQ(density.at(30, run), 0.002);
}

TEST(Density, RefusesWhatIsNoDensity) {
  for (const char* keys : {":warmup=", ":warmup=0.25+", ":warmup=+0.1", ":warmup=0.1+2",
                           ":warmup=0", ":warmup=nan", ":warmup=fast", ":density=0"}) {
    EXPECT_THROW(schedule(keys), ConfigError) << keys;
  }
}

TEST(Density, CountsAtLeastOneElementAndAtMostAll) {
  EXPECT_EQ(schedule("").count(0, 0, {}), 0u);
  EXPECT_EQ(schedule("").count(5, 0, {}), 1u);
  EXPECT_EQ(schedule("").count(25'000'000, 0, {}), 25'000u);
  EXPECT_EQ(schedule(":density=1").count(7, 0, {}), 7u);
}

TEST(Density, KnowsTheEndOfItsWarmUp) {
  const RunOptions run{.steps = 1001, .steps_per_epoch = 10.5};
  const auto end_of = [&](const char* keys) {
    const DensitySchedule density = schedule(keys);
    const std::uint64_t end = density.warmup_end(run);
    EXPECT_EQ(density.at(end, run), density.target());
    EXPECT_TRUE(end == 0 || density.at(end - 1, run) != density.target());
    return end;
  };
  EXPECT_EQ(end_of(""), 26u);
  EXPECT_EQ(end_of(":warmup=none"), 0u);
  EXPECT_EQ(end_of(":warmup=0.2+0.1"), 21u);
}

}  // namespace
}  // namespace thinwire::strategy
