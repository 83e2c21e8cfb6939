#include "strategy/common/divergence_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "strategy/common/state.h"
#include "testing/expect.h"

namespace thinwire::strategy {
namespace {

constexpr double kDensity = 0.01;

using Norms = std::function<double(std::uint64_t step)>;

// The decisions of one rank in each step, for updates that the test gives.
struct Course {
  std::vector<Safeguards> safeguards;
  std::vector<std::string> warnings;

  std::size_t dense_steps() const {
    std::size_t count = 0;
    for (const Safeguards& each : safeguards) count += each.dense;
    return count;
  }
};

Course follow(const Norms& update, std::uint64_t steps, DivergenceGuard guard = {}) {
  Course out;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::string warning = guard.begin_step(step, guard.alarm(), kDensity);
    if (!warning.empty()) out.warnings.push_back(warning);
    out.safeguards.push_back(guard.safeguards());
    guard.end_step(update(step));
  }
  return out;
}

bool did_nothing(const Course& course) {
  for (const Safeguards& each : course.safeguards) {
    if (each.clip || each.density != 1 || each.dense) return false;
  }
  return course.warnings.empty();
}

// Updates grow while residuals fill up, as those of LeNet at density 0.001 do.
double filling(std::uint64_t step) { return 14 * (1 - std::exp(-static_cast<double>(step) / 30)); }

TEST(DivergenceGuard, DoesNothingWhileResidualsFillUpOrGradientsVanish) {
  EXPECT_TRUE(did_nothing(follow(filling, 5000)));
  EXPECT_TRUE(did_nothing(
      follow([](std::uint64_t step) { return std::exp(-static_cast<double>(step) / 300); }, 5000)));
  EXPECT_TRUE(did_nothing(follow([](std::uint64_t) { return 0.0; }, 1000)));
}

TEST(DivergenceGuard, DoesNothingAboutSingleHardBatches) {
  EXPECT_TRUE(
      did_nothing(follow([](std::uint64_t step) { return step % 50 < 2 ? 9.0 : 1.0; }, 5000)));
}

// Late in training updates are a hundred times shorter than at the start, so that even ten hard
// batches in a row are no sign of divergence.
TEST(DivergenceGuard, ComparesWithTheLongestTimesOfTheRunToo) {
  const auto late = [](std::uint64_t step) {
    if (step < 200) return 10.0;
    return step % 100 < 10 ? 5.0 : 0.1;
  };
  EXPECT_TRUE(did_nothing(follow(late, 5000)));
}

TEST(DivergenceGuard, EscalatesWhileUpdatesGrow) {
  const auto growing = [](std::uint64_t step) {
    return step < 100 ? 1.0 : std::min(9.0, std::pow(1.5, static_cast<double>(step - 100)));
  };
  const Course course = follow(growing, 120);
  // Updates are long from step 103 on; three in a row are known in step 106.
  EXPECT_FALSE(course.safeguards[105].clip);
  EXPECT_TRUE(course.safeguards[106].clip);
  EXPECT_EQ(course.safeguards[109].density, 1);
  EXPECT_EQ(course.safeguards[110].density, 4);
  EXPECT_FALSE(course.safeguards[113].dense);
  EXPECT_TRUE(course.safeguards[114].dense);
  EXPECT_FALSE(course.safeguards[115].dense);
  EXPECT_TRUE(course.safeguards[118].dense);  // still growing
  ASSERT_EQ(course.warnings.size(), 4u);
  EXPECT_TRUE(test::has(course.warnings[0], "the run is about to diverge (step 106, "));
  EXPECT_TRUE(test::has(course.warnings[0], "gradients are clipped"));
  EXPECT_TRUE(test::has(course.warnings[1], "4 times as many entries"));
  EXPECT_TRUE(test::has(course.warnings[2], "this step is dense"));
}

// If updates stay long, their length becomes the usual one after some time.
TEST(DivergenceGuard, EndsItsMeasuresWhenItIsQuiet) {
  const Course course = follow([](std::uint64_t step) { return step < 100 ? 1.0 : 8.0; }, 1000);
  EXPECT_GE(course.dense_steps(), 1u);
  EXPECT_LE(course.dense_steps(), 8u);
  EXPECT_EQ(course.safeguards[300].density, 4);
  EXPECT_TRUE(course.safeguards[500].clip);
  EXPECT_EQ(course.safeguards[500].density, 1);
  EXPECT_FALSE(course.safeguards[900].clip);
}

// An infinite update leads to the dense step at once, also in the first steps of a run.
TEST(DivergenceGuard, AnswersAnExplosionByADenseStepAtOnce) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  for (const std::uint64_t start : {20, 200}) {
    for (const double size : {11.0, 1e9, kInfinite}) {
      if (start < 64 && size != kInfinite) continue;
      const Course course =
          follow([&](std::uint64_t step) { return step == start ? size : 1.0; }, start + 20);
      EXPECT_FALSE(course.safeguards[start].clip);
      EXPECT_TRUE(course.safeguards[start + 1].dense);
      EXPECT_TRUE(course.safeguards[start + 1].clip);
      EXPECT_EQ(course.dense_steps(), 1u);
      ASSERT_EQ(course.warnings.size(), 1u);
      EXPECT_TRUE(test::has(course.warnings[0], "times as long as usual"));
    }
  }
}

// In the first steps nobody knows yet how long updates usually are.
TEST(DivergenceGuard, DoesNothingAboutTheFirstLongUpdate) {
  EXPECT_TRUE(did_nothing(follow([](std::uint64_t step) { return step == 40 ? 1.5 : 0.1; }, 300)));
}

// Updates become longer when the density changes, here by the most that a change can cause.
TEST(DivergenceGuard, DoesNothingAboutADensityThatChanges) {
  for (const double ratio : {8.0, 1.0 / 8}) {
    for (const bool is_told : {true, false}) {
      DivergenceGuard guard;
      std::vector<std::string> warnings;
      for (std::uint64_t step = 0; step < 400; ++step) {
        const std::string warning = guard.begin_step(step, guard.alarm(), kDensity);
        if (!warning.empty()) warnings.push_back(warning);
        if (step == 200 && is_told) guard.density_changed(ratio);
        guard.end_step(step < 200 ? 1 : std::sqrt(8.0));
      }
      EXPECT_EQ(warnings.empty(), is_told);
    }
  }
}

// A residual is looked at once in 1 / density steps. If it grows on, the measures must not have
// been taken back meanwhile.
TEST(DivergenceGuard, EscalatesWhileAResidualGrowsAtALowDensity) {
  constexpr double kLow = 0.001;
  DivergenceGuard guard;
  std::vector<std::string> measures;
  for (std::uint64_t step = 0; step < 9000; ++step) {
    const std::string warning = guard.begin_step(step, guard.alarm(), kLow);
    if (!warning.empty()) measures.push_back(warning);
    guard.end_step(1);
    if (step % 16 == 0) {
      guard.watch_residual(step, 10 * std::pow(1.6, static_cast<double>(step) / 1000), 1, kLow);
    }
  }
  ASSERT_GE(measures.size(), 3u);
  EXPECT_TRUE(test::has(measures[0], "gradients are clipped"));
  EXPECT_TRUE(test::has(measures[1], "4 times as many entries"));
  EXPECT_TRUE(test::has(measures[2], "this step is dense"));
}

// Ranks see different residuals. They decide alike because each follows the vote.
TEST(DivergenceGuard, RanksFollowTheVote) {
  std::vector<DivergenceGuard> guards(3);
  int clipped = 0;
  for (std::uint64_t step = 0; step < 2000; ++step) {
    Alarm highest = Alarm::none;
    for (const DivergenceGuard& guard : guards) highest = std::max(highest, guard.alarm());
    for (DivergenceGuard& guard : guards) guard.begin_step(step, highest, kDensity);
    for (const DivergenceGuard& guard : guards) {
      ASSERT_EQ(guard.safeguards().clip, guards[0].safeguards().clip);
      ASSERT_EQ(guard.safeguards().density, guards[0].safeguards().density);
      ASSERT_EQ(guard.safeguards().dense, guards[0].safeguards().dense);
      clipped += guard.safeguards().clip;
    }
    for (std::size_t rank = 0; rank < guards.size(); ++rank) {
      guards[rank].end_step(1);
      if (step % 16 != 0) continue;
      const double residual = rank == 1 ? std::exp(static_cast<double>(step) / 150) : 50;
      guards[rank].watch_residual(step, residual, 1, 0.01);
    }
  }
  EXPECT_GT(clipped, 0);
}

TEST(DivergenceGuard, ClipsToTwoMediansAndShortensToOneIfItShould) {
  DivergenceGuard guard;
  for (std::uint64_t step = 0; step < 64; ++step) {
    guard.begin_step(step, Alarm::none, kDensity);
    guard.end_step(2);
    if (step % 16 == 0) guard.watch_gradient(5);
  }
  const std::vector<float> before = {30, 40};
  auto values = before;
  guard.clip(values);
  guard.shorten(values);
  EXPECT_EQ(values, before);
  guard.begin_step(64, Alarm::growing, kDensity);
  guard.shorten(values);
  EXPECT_EQ(values, before);
  guard.clip(values);
  EXPECT_NEAR(norm(values), 10, 1e-5);
  EXPECT_NEAR(values[1] / values[0], 4.0 / 3, 1e-5);
  const auto short_one = std::vector<float>{3, 3.5};
  values = short_one;
  guard.clip(values);
  EXPECT_EQ(values, short_one);
  guard.begin_step(68, Alarm::growing, kDensity);
  guard.begin_step(72, Alarm::growing, kDensity);
  ASSERT_TRUE(guard.safeguards().dense);
  values = before;
  guard.shorten(values);
  EXPECT_NEAR(norm(values), 2, 1e-5);
}

TEST(DivergenceGuard, GoesOnFromItsSavedState) {
  const auto norm_at = [](std::uint64_t step) {
    return step < 100 ? 1.0 : std::pow(1.3, static_cast<double>(step - 100));
  };
  DivergenceGuard guard;
  for (std::uint64_t step = 0; step < 130; ++step) {
    Payload state;
    base::ByteWriter writer(state);
    guard.save(writer);
    DivergenceGuard loaded;
    base::ByteReader reader(state, "guard");
    loaded.load(reader);
    reader.expect_end();
    ASSERT_EQ(loaded.begin_step(step, loaded.alarm(), kDensity),
              guard.begin_step(step, guard.alarm(), kDensity));
    ASSERT_EQ(loaded.safeguards().dense, guard.safeguards().dense);
    loaded.end_step(norm_at(step));
    if (step % 16 == 0) loaded.watch_residual(step, norm_at(step), 1, 0.1);
    guard = loaded;
  }
  EXPECT_TRUE(guard.safeguards().clip);
}

TEST(DivergenceGuard, RefusesADamagedState) {
  Payload state;
  base::ByteWriter writer(state);
  DivergenceGuard().save(writer);
  state[0] = std::byte{65};  // more numbers than a median has
  base::ByteReader reader(state, "guard");
  DivergenceGuard guard;
  EXPECT_THROW(guard.load(reader), WireError);
  base::ByteReader cut(Bytes(state).first(20), "guard");
  EXPECT_THROW(guard.load(cut), WireError);
}

}  // namespace
}  // namespace thinwire::strategy
