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
  const RunOptions run{.steps = steps};
  density.begin(run, 4, applied);
  std::vector<std::uint64_t> out;
  for (std::uint64_t step = 0; step < (steps == 0 ? 2500 : steps); ++step) {
    if (density.is_due(step, run)) out.push_back(step);
  }
  return out;
}

TEST(DensityControl, DecidesRarely) {
  using Steps = std::vector<std::uint64_t>;
  EXPECT_EQ(decisions(5000, 4), (Steps{100, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500}));
  EXPECT_EQ(decisions(999, 4), Steps{}) << "times decide nothing in a short run";
  EXPECT_EQ(decisions(0, 4), Steps{}) << "nor in a run of unknown length";
  EXPECT_EQ(decisions(5000, 4, ":budget=0"), Steps{});
  EXPECT_EQ(decisions(150, 1), Steps{20}) << "how many picks are applied is measured nevertheless";
  EXPECT_EQ(decisions(20, 1), Steps{});
}

// What all ranks count in every step since the last decision.
struct Measured {
  double delivered = 0, changed = 1;
  double own = 0, exchange = 0;
};

// Two ranks that measured different numbers decide a few times; returns their densities.
std::vector<double> decide(const std::string& keys, std::uint64_t steps, double applied,
                           const Measured& lower, const Measured& higher, int times = 1) {
  std::vector<double> out(2);
  test::on_ranks(2, [&](Transport& wire) {
    DensityControl density = control(keys);
    const RunOptions run{.steps = steps};
    density.begin(run, 2, applied);
    const double first = density.target();
    const Measured& mine = wire.rank() == 0 ? lower : higher;
    for (int decision = 0; decision < times; ++decision) {
      const double factor = density.target() / first;
      for (std::uint64_t step = 10; step < 40; ++step) {
        density.count_step({step, density.target(), mine.delivered, mine.changed, Seconds(mine.own),
                            Seconds(mine.exchange * factor)},
                           run);
      }
      density.decide(wire, run, 2);
    }
    out[static_cast<std::size_t>(wire.rank())] = density.target();
  });
  EXPECT_EQ(out[0], out[1]);
  return out;
}

TEST(DensityControl, AsksForLessIfWorkersPickTheSame) {
  // Each of 100 changes has the picks of both workers.
  const Measured both{.delivered = 100, .changed = 100};
  EXPECT_DOUBLE_EQ(decide(":budget=0", 3000, 1, both, both)[0], 0.01);
  const Measured one{.delivered = 50, .changed = 100};
  EXPECT_DOUBLE_EQ(decide(":budget=0", 3000, 1, one, one)[0], 0.02);
  const Measured some{.delivered = 75, .changed = 100};
  EXPECT_NEAR(decide(":budget=0", 3000, 1, some, some)[0], 0.01 * std::sqrt(2), 1e-12);
  EXPECT_DOUBLE_EQ(decide(":budget=0", 3000, 1, both, one)[0], 0.01 * std::sqrt(2));
}

TEST(DensityControl, SendsMoreIfTheExchangeStaysWithinItsBudget) {
  // 0.9 s of computing allow 0.1 s of exchange.
  const Measured fast{.own = 0.9, .exchange = 0.024}, slow{.own = 0.9, .exchange = 0.048};
  EXPECT_NEAR(decide("", 3000, 2, fast, fast)[0], 0.04, 1e-12);
  EXPECT_NEAR(decide("", 3000, 2, fast, slow)[0], 0.02, 1e-12) << "the slowest rank counts";
  EXPECT_NEAR(decide("", 3000, 2, fast, fast, 3)[0], 0.04, 1e-12) << "it stays there";
  EXPECT_NEAR(decide(":budget=0", 3000, 2, fast, fast)[0], 0.01, 1e-12);
  EXPECT_NEAR(decide("", 3000, 2, {.own = 0.9}, {.own = 0.9})[0], 0.04, 1e-12) << "at most 4 times";
  const Measured full{.own = 0.9, .exchange = 3};
  EXPECT_NEAR(decide("", 3000, 2, full, full)[0], 0.01, 1e-12) << "coverage comes first";
  EXPECT_NEAR(decide("", 900, 2, fast, fast)[0], 30.0 / 900, 1e-12) << "a short run";
}

TEST(DensityControl, GoesOnFromItsState) {
  DensityControl density = control();
  const RunOptions run{.steps = 3000};
  density.begin(run, 8, 1);
  density.count_step({.number = 30, .density = 0.08, .delivered = 5, .changed = 20}, run);
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
    std::memcpy(damaged.data() + 4, &number, sizeof number);
    EXPECT_THROW(load(damaged), WireError) << number;
  }
  state.resize(state.size() - 1);
  EXPECT_THROW(load(state), WireError);
}

TEST(DensityControl, RefusesWhatIsNoDensityOrBudget) {
  for (const char* keys : {":density=0", ":density=automatic", ":density=2", ":budget=1",
                           ":budget=-1", ":budget=much"}) {
    EXPECT_THROW(control(keys), ConfigError) << keys;
  }
}

}  // namespace
}  // namespace thinwire::strategy
