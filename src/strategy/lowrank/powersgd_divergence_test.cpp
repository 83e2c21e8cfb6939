// PowerSGD where its rank is too low for the learning rate: it clips gradients, takes dense steps
// and warns.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "base/random.h"
#include "strategy/lowrank/rank_schedule.h"
#include "testing/expect.h"
#include "testing/ranks.h"
#include "thinwire/session.h"

namespace thinwire::strategy {
namespace {

// A matrix of which rank 1 takes 7 % of the bytes of dense and rank 2 more than 8 %, so that the
// rank cannot rise. The run starts at a distance of 30 from the minimum.
constexpr std::size_t kSide = 30, kNumel = kSide * kSide;

struct Outcome {
  double farthest = 0;  // the longest distance from the minimum
  std::vector<std::string> warnings;
};

// Two workers train by SGD with momentum in a bowl that is ten times as steep in some rows as in
// the others.
Outcome train(const std::string& spec, float rate, std::uint64_t steps) {
  Outcome out;
  test::on_ranks(2, [&](Transport& wire) {
    const Layout layout{{{"matrix", 0, {kSide, kSide}}}, kNumel};
    std::vector<float> params(kNumel, 1.0f), grads(kNumel);
    SessionOptions options;
    options.strategy = spec;
    options.run.steps = steps;
    options.run.sgd.momentum = 0.9f;
    options.log = [&](LogLevel level, std::string_view text) {
      if (level >= LogLevel::warning && wire.rank() == 0) out.warnings.emplace_back(text);
    };
    Session session(wire, options);
    const ModelView model{params, grads, layout};
    session.begin(model, 0);
    while (session.step() < steps) {
      const std::uint64_t stream = session.step() << 8 | static_cast<std::uint64_t>(wire.rank());
      double distance = 0;
      for (std::size_t i = 0; i < kNumel; ++i) {
        const float curvature = i / kSide < 10 ? 1.0f : 0.1f;
        const auto random = base::philox(9, stream, i, base::Purpose::test);
        grads[i] = curvature * params[i] + 0.1f * (base::unit_float(random[0]) - 0.5f);
        distance += static_cast<double>(params[i]) * static_cast<double>(params[i]);
      }
      if (wire.rank() == 0) out.farthest = std::max(out.farthest, std::sqrt(distance));
      session.apply(model, session.exchange(model), rate);
      session.finish_step(model, {1, rate});
    }
    EXPECT_TRUE(session.replicas_identical(model));
    session.end(model);
  });
  return out;
}

TEST(PowerSgdDivergence, IsContainedAndSaid) {
  // Without the guard the distance is 1e13 or more after 600 steps, where dense ends at 1 to 2.
  for (const char* spec : {"powersgd:rank=1", "powersgd:rank=1,start=0"}) {
    for (const float rate : {0.1f, 0.3f}) {
      const Outcome out = train(spec, rate, 600);
      EXPECT_LT(out.farthest, rate < 0.2f ? 100 : 2000) << spec << ", " << rate;
      ASSERT_GE(out.warnings.size(), 2u);
      bool said = false;
      for (const std::string& text : out.warnings) {
        said = said || text.find("about to diverge") != std::string::npos;
        EXPECT_EQ(text.substr(0, 10), "powersgd: ");
      }
      EXPECT_TRUE(said);
    }
  }
}

TEST(PowerSgdDivergence, IsNotSeenInAHealthyRun) {
  for (const char* spec : {"powersgd:rank=1", "powersgd:rank=1,start=0"}) {
    const Outcome out = train(spec, 0.01f, 600);
    EXPECT_LT(out.farthest, 31) << spec;
    EXPECT_TRUE(out.warnings.empty()) << spec << ": " << out.warnings[0];
  }
}

// The norms of an error memory that fills with noise, up to what is sent of it in a step.
TEST(RankSchedule, IsCalmWhileTheErrorMemoryFills) {
  base::Spec spec = base::Spec::parse("powersgd:rank=1");
  RankSchedule schedule = RankSchedule::read(spec);
  schedule.limit(4);
  schedule.emptied(100);
  for (std::uint64_t step = 104; step < 600; step += 8) {
    const float norm = std::sqrt(static_cast<float>(std::min<std::uint64_t>(step - 100, 200)));
    EXPECT_EQ(schedule.observe(step, {norm, norm}), RankSchedule::Growth::calm) << step;
  }
}

TEST(RankSchedule, RisesWhenTheErrorMemoryGrowsFasterThanItFills) {
  base::Spec spec = base::Spec::parse("powersgd:rank=1");
  RankSchedule schedule = RankSchedule::read(spec);
  schedule.limit(4);
  schedule.emptied(100);
  std::vector<RankSchedule::Growth> seen;
  for (std::uint64_t step = 104; step < 160; step += 8) {
    const float norm = std::exp(0.1f * static_cast<float>(step - 100));
    seen.push_back(schedule.observe(step, {norm, norm}));
  }
  EXPECT_EQ(schedule.rank(), 4u);
  EXPECT_EQ(seen.back(), RankSchedule::Growth::alarm) << "it cannot rise further";
}

}  // namespace
}  // namespace thinwire::strategy
