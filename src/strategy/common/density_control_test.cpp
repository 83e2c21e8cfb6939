#include "strategy/common/density_control.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "testing/ranks.h"
#include "thinwire/error.h"

namespace thinwire::strategy {
namespace {

DensityControl control(const std::string& keys = "") {
  base::Spec spec = base::Spec::parse("topk" + keys);
  return {spec, 0.01};
}

double first_density(std::uint64_t steps, int workers, double applied) {
  DensityControl density = control();
  density.begin({.steps = steps}, workers, applied);
  return density.target();
}

TEST(DensityControl, ReachesTheCoverageWantedInTheWholeRun) {
  EXPECT_DOUBLE_EQ(first_density(3000, 8, 8), 0.01);
  EXPECT_DOUBLE_EQ(first_density(500, 8, 8), 0.05);          // the most that each worker delivers
  EXPECT_DOUBLE_EQ(first_density(100, 8, 8), 0.2);           // ... unless the run is very short
  EXPECT_DOUBLE_EQ(first_density(10'000'000, 8, 8), 0.001);  // ... and the least
  EXPECT_DOUBLE_EQ(first_density(0, 8, 8), 0.01);            // a length that is not known
}

TEST(DensityControl, SendsMoreWhereMergesDropPicks) {
  EXPECT_DOUBLE_EQ(first_density(3000, 8, 1), 0.08);
  EXPECT_NEAR(first_density(3000, 5, 1), 0.01 * std::exp2(2.5), 1e-12);  // a factor of 5 or more
  EXPECT_DOUBLE_EQ(first_density(1000, 64, 1), 1);
  EXPECT_DOUBLE_EQ(first_density(0, 8, 1), 0.01);
}

TEST(DensityControl, AGivenDensityStaysAsItIs) {
  DensityControl density = control(":density=0.003");
  density.begin({.steps = 3000}, 4, 1);
  EXPECT_FALSE(density.automatic());
  EXPECT_DOUBLE_EQ(density.target(), 0.003);
  EXPECT_DOUBLE_EQ(density.coverage_per_density({.steps = 3000}), 750);
  for (std::uint64_t step = 0; step < 3000; ++step) {
    ASSERT_FALSE(density.is_due(step, {.steps = 3000}));
  }
}

std::vector<std::uint64_t> decisions(std::uint64_t steps, double applied, const char* keys = "") {
  DensityControl density = control(keys);
  const RunOptions run{.steps = steps, .steps_per_epoch = 200};
  density.begin(run, 4, applied);
  std::vector<std::uint64_t> out;
  for (std::uint64_t step = 0; step < (steps == 0 ? 2500 : steps); ++step) {
    if (density.is_due(step, run)) out.push_back(step);
  }
  return out;
}

TEST(DensityControl, DecidesRarely) {
  using Steps = std::vector<std::uint64_t>;
  EXPECT_EQ(decisions(5000, 1), (Steps{225, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500}))
      << "first 2 % after the warm-up of 2.5 %";
  EXPECT_EQ(decisions(5000, 1, ":warmup=none")[0], 100u);
  EXPECT_EQ(decisions(5000, 1, ":warmup=0.2+0.1+0.05")[0], 700u);
  EXPECT_EQ(decisions(5000, 4), Steps{}) << "all picks are applied, so that nothing is measured";
  EXPECT_EQ(decisions(0, 1), Steps{}) << "nor in a run of unknown length";
  EXPECT_EQ(decisions(150, 1), Steps{24});
  EXPECT_EQ(decisions(20, 1), Steps{});
}

// Two ranks count different steps before each of several decisions; returns the densities that
// follow.
std::vector<double> decide(const DensityControl::Step& lower, const DensityControl::Step& higher,
                           std::vector<DensityControl::Step> later = {}) {
  std::vector<std::vector<double>> out(2);
  test::on_ranks(2, [&](Transport& wire) {
    DensityControl density = control();
    density.begin({.steps = 3000}, 2, 1);
    std::uint64_t number = 100;  // after the warm-up
    const auto turn = [&](DensityControl::Step step) {
      for (int i = 0; i < 30; ++i) {
        step.number = number++;
        density.count_step(step);
      }
      const double before = density.target();
      const bool changed = density.decide(wire, 2);
      EXPECT_EQ(changed, density.target() != before);
      out[static_cast<std::size_t>(wire.rank())].push_back(density.target());
    };
    turn(wire.rank() == 0 ? lower : higher);
    for (const DensityControl::Step& step : later) turn(step);
  });
  EXPECT_EQ(out[0], out[1]);
  return out[0];
}

TEST(DensityControl, AsksForLessIfWorkersPickTheSame) {
  // Each of 100 changes has the picks of both workers.
  const DensityControl::Step both{.delivered = 100, .changed = 100};
  EXPECT_DOUBLE_EQ(decide(both, both)[0], 0.01);
  const DensityControl::Step one{.delivered = 50, .changed = 100};
  EXPECT_DOUBLE_EQ(decide(one, one)[0], 0.02);
  const DensityControl::Step some{.delivered = 75, .changed = 100};
  EXPECT_NEAR(decide(some, some)[0], 0.01 * std::sqrt(2), 1e-12);
  EXPECT_DOUBLE_EQ(decide(both, one)[0], 0.01 * std::sqrt(2));
}

TEST(DensityControl, ChangesByOneLevelAtATimeAfterTheFirstDecision) {
  const DensityControl::Step both{.delivered = 100, .changed = 100};
  const DensityControl::Step one{.delivered = 50, .changed = 100};
  const auto densities = decide(both, both, {one, one, both, both, both});
  const double expected[] = {0.01, 0.01 * std::sqrt(2), 0.02, 0.01 * std::sqrt(2), 0.01, 0.01};
  ASSERT_EQ(densities.size(), std::size(expected));
  for (std::size_t i = 0; i < densities.size(); ++i) EXPECT_NEAR(densities[i], expected[i], 1e-12);
}

TEST(DensityControl, CountsNothingInTheWarmUp) {
  DensityControl density = control();
  density.begin({.steps = 3000}, 2, 1);
  density.count_step({.number = 74, .delivered = 100, .changed = 100});
  EXPECT_EQ(density.state().changed, 0);
  density.count_step({.number = 75, .delivered = 100, .changed = 100});
  EXPECT_EQ(density.state().changed, 100);
}

TEST(DensityControl, IsRestoredAsItWas) {
  test::on_ranks(2, [&](Transport& wire) {
    DensityControl density = control();
    density.begin({.steps = 3000}, 2, 1);
    density.count_step({.number = 100, .delivered = 100, .changed = 100});
    const DensityControl::State before = density.state();
    const double target = density.target();
    EXPECT_TRUE(density.decide(wire, 2));
    EXPECT_NE(density.target(), target);
    density.restore(before);
    EXPECT_EQ(density.target(), target);
    EXPECT_EQ(density.state().changed, 100);
    EXPECT_EQ(density.state().decided, 0u);
  });
}

TEST(DensityControl, GoesOnFromItsState) {
  DensityControl density = control();
  const RunOptions run{.steps = 3000};
  density.begin(run, 8, 1);
  density.count_step({.number = 100, .delivered = 5, .changed = 20});
  Payload state;
  base::ByteWriter writer(state);
  density.save(writer);
  DensityControl resumed = control();
  base::ByteReader reader(state, "state");
  resumed.load(reader);
  resumed.begin(run, 8, 1);
  EXPECT_EQ(resumed.target(), density.target());
  Payload again;
  base::ByteWriter second(again);
  resumed.save(second);
  EXPECT_EQ(again, state);
}

TEST(DensityControl, RefusesAStateThatIsDamaged) {
  Payload state;
  base::ByteWriter writer(state);
  control().save(writer);
  const auto load = [](Payload bytes) {
    base::ByteReader reader(bytes, "state");
    control().load(reader);
  };
  load(state);
  for (const std::int32_t level : {-2, 65, 1 << 30}) {
    Payload damaged = state;
    std::memcpy(damaged.data(), &level, sizeof level);
    EXPECT_THROW(load(damaged), WireError) << level;
  }
  for (const double number : {-1.0, 0.5, std::numeric_limits<double>::quiet_NaN()}) {
    Payload damaged = state;
    std::memcpy(damaged.data() + 8, &number, sizeof number);
    EXPECT_THROW(load(damaged), WireError) << number;
  }
  state.resize(state.size() - 1);
  EXPECT_THROW(load(state), WireError);
}

TEST(DensityControl, RefusesWhatIsNoDensity) {
  for (const char* keys : {":density=0", ":density=automatic", ":density=2"}) {
    EXPECT_THROW(control(keys), ConfigError) << keys;
  }
}

}  // namespace
}  // namespace thinwire::strategy
