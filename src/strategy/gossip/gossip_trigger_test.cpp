#include "strategy/gossip/gossip_trigger.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace thinwire::strategy {
namespace {

using Rule = GossipTrigger::Rule;

// A model that moves as a test says, with a trigger whose messages are always sent.
class MovingModel {
 public:
  // The run is so short that it has no warm-up.
  explicit MovingModel(const GossipTrigger::Options& options, const RunOptions& run = {.steps = 1})
      : trigger_(options), params_(50, 1.0f) {
    trigger_.begin(run);
    movement_.begin(params_);
  }

  // Each element moves by `drift` and, at random, by up to `noise`.
  bool step(float drift, float noise = 0, double rate = 0.1) {
    for (std::size_t i = 0; i < params_.size(); ++i) {
      params_[i] +=
          drift +
          noise * (2 * base::unit_float(base::philox(7, steps_, i, base::Purpose::test)[0]) - 1);
    }
    return moved(rate);
  }
  bool step(const std::vector<float>& by) {
    for (std::size_t i = 0; i < params_.size(); ++i) params_[i] += by[i];
    return moved(0.1);
  }
  bool moved(double rate) {
    ++steps_;
    movement_.stepped(params_);
    const bool due = trigger_.due(movement_, rate);
    trigger_.sent(due);
    if (due) movement_.sent();
    return due;
  }
  std::vector<std::uint64_t> intervals(std::uint64_t steps, float drift, float noise = 0) {
    std::vector<std::uint64_t> out;
    std::uint64_t last = 0;
    for (std::uint64_t i = 1; i <= steps; ++i) {
      if (!step(drift, noise)) continue;
      out.push_back(i - last);
      last = i;
    }
    return out;
  }
  double metric(std::string_view name) const {
    std::vector<Metric> metrics;
    trigger_.report(metrics);
    for (const Metric& each : metrics) {
      if (each.name == name) return each.value();
    }
    ADD_FAILURE() << "no metric " << name;
    return 0;
  }
  GossipTrigger& trigger() { return trigger_; }
  OwnMovement& movement() { return movement_; }

 private:
  GossipTrigger trigger_;
  OwnMovement movement_;
  std::vector<float> params_;
  std::uint64_t steps_ = 0;
};

GossipTrigger::Options change(double kappa) { return {Rule::change, kappa, 0.08, 1}; }

TEST(GossipTrigger, FiresAfterKappaStepsInOneDirection) {
  for (const std::uint64_t interval : MovingModel(change(7.5)).intervals(100, 0.5f)) {
    EXPECT_EQ(interval, 8u);
  }
}

TEST(GossipTrigger, FiresAfterKappaSquaredStepsOfNoise) {
  const auto intervals = MovingModel(change(4)).intervals(2000, 0, 0.5f);
  ASSERT_GT(intervals.size(), 50u);
  double sum = 0;
  for (const std::uint64_t interval : intervals) sum += static_cast<double>(interval);
  EXPECT_NEAR(sum / static_cast<double>(intervals.size()), 16, 2);
}

// Momentum makes steps alike, so that noise could reach kappa as soon as progress does.
TEST(GossipTrigger, FiresAfterKappaSquaredStepsOfNoiseAlsoWithMomentum) {
  RunOptions run{.steps = 1};
  run.sgd.momentum = 0.9f;
  MovingModel model(change(8), run);
  std::vector<float> velocity(50);
  for (std::uint64_t step = 0; step < 6000; ++step) {
    for (std::size_t i = 0; i < velocity.size(); ++i) {
      const float noise = base::unit_float(base::philox(8, step, i, base::Purpose::test)[0]) - 0.5f;
      velocity[i] = 0.9f * velocity[i] + 0.01f * noise;
    }
    model.step(velocity);
  }
  EXPECT_NEAR(model.metric("interval_mean"), 64, 16);
}

TEST(GossipTrigger, KappaOfZeroFiresInEveryStepAndAHugeOneOnlyAfterTheLongestInterval) {
  MovingModel always(change(0)), hardly(change(1e9));
  for (std::uint64_t step = 1; step <= 1000; ++step) {
    EXPECT_TRUE(always.step(0));
    EXPECT_EQ(hardly.step(1.0f), step % GossipTrigger::kLongestInterval == 0) << step;
  }
  EXPECT_EQ(hardly.metric("forced"), 5);
  EXPECT_EQ(hardly.metric("fires"), 5);
  EXPECT_EQ(always.metric("forced"), 0);
}

TEST(GossipTrigger, AModelThatDoesNotMoveIsNotSent) {
  MovingModel model(change(8));
  for (int step = 1; step < 200; ++step) EXPECT_FALSE(model.step(0));
}

TEST(GossipTrigger, FollowsALearningRateThatFalls) {
  MovingModel model(change(8));
  for (int step = 0; step < 400; ++step) model.step(0.5f);
  const double before = model.metric("fires");
  for (int step = 0; step < 1600; ++step) model.step(0.005f);
  // After some hundred steps the mean step is the small one, and the interval is 8 again.
  EXPECT_GT(model.metric("fires") - before, 1600 / 8.0 * 0.6);
}

// Steps become ten times shorter at a tenth of the learning rate, and intervals stay the same.
TEST(GossipTrigger, KeepsItsIntervalsWhenStepsScaleWithTheLearningRate) {
  for (const Rule rule : {Rule::change, Rule::budget}) {
    MovingModel model({rule, 8, 0.1, 1});
    for (int step = 0; step < 1000; ++step) model.step(0.005f, 0.001f, 0.1);
    const double before = model.metric("fires");
    for (int step = 0; step < 200; ++step) model.step(0.0005f, 0.0001f, 0.01);
    EXPECT_NEAR(model.metric("fires") - before, 22, 6);
  }
}

TEST(GossipTrigger, SendsAtOnceAfterAJumpOfTheLearningRate) {
  MovingModel model(change(1e6));
  for (int step = 0; step < 50; ++step) EXPECT_FALSE(model.step(0.5f, 0, 0.1));
  for (int step = 0; step < 5; ++step) {
    EXPECT_FALSE(model.step(0.5f, 0, 0.1 - 0.001 * step)) << "a slow change is no jump";
  }
  EXPECT_TRUE(model.step(0.05f, 0, 0.01));
  EXPECT_EQ(model.metric("forced"), 1);
  EXPECT_FALSE(model.step(0.05f, 0, 0.01));
}

// The last steps of a cosine schedule lower the rate by ever larger factors; these are no jumps.
TEST(GossipTrigger, SendsOnceWhenTheRateKeepsChanging) {
  MovingModel model(change(1e6));
  for (int step = 0; step <= 100; ++step) model.step(0.5f, 0, 0.001 * (101 - step));
  EXPECT_EQ(model.metric("forced"), 1);
}

TEST(GossipTrigger, WarmsUpInEveryStep) {
  RunOptions run;
  run.steps = 1000;
  MovingModel model(change(1e9), run);
  for (int step = 1; step <= 200; ++step) EXPECT_EQ(model.step(1.0f), step <= 30) << step;
}

TEST(GossipTrigger, WarmsUpInARunOfUnknownLength) {
  for (const std::uint64_t warmup : {0, 50}) {
    RunOptions run;
    run.warmup_steps = warmup;
    MovingModel model(change(1e9), run);
    const int last = warmup == 0 ? 30 : 50;
    for (int step = 1; step <= 200; ++step) EXPECT_EQ(model.step(1.0f), step <= last) << step;
  }
}

TEST(GossipTrigger, APeriodIsAPeriod) {
  RunOptions run;
  run.steps = 1000;
  MovingModel model({Rule::period, 8, 0.08, 13}, run);
  for (int step = 1; step <= 500; ++step) EXPECT_EQ(model.step(0), step % 13 == 0) << step;
}

TEST(GossipTrigger, AMessageThatCouldNotBeSentStaysDue) {
  MovingModel model(change(4));
  std::vector<float> params(200, 1.0f);
  GossipTrigger trigger(change(4));
  OwnMovement movement;
  movement.begin(params);
  const auto step = [&](float by) {
    for (float& value : params) value += by;
    movement.stepped(params);
    return trigger.due(movement, 0.1);
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(step(1));
    trigger.sent(false);
  }
  EXPECT_TRUE(step(1));
  trigger.sent(false);
  EXPECT_TRUE(step(-4)) << "although the model is back where it was";
  trigger.sent(true);
  movement.sent();
  EXPECT_FALSE(step(1));
  trigger.sent(false);
  trigger.failed();
  EXPECT_TRUE(step(1)) << "a refused exchange is tried again";
}

// The controller finds the threshold for any mixture of drift and noise.
TEST(GossipTrigger, HoldsABudget) {
  for (const double budget : {0.02, 0.08, 0.2, 0.4}) {
    for (const float drift : {0.0f, 1e-4f}) {
      for (const float noise : {1e-4f, 1e-2f}) {
        MovingModel model({Rule::budget, 8, budget, 1});
        model.intervals(2000, drift, noise);
        const double before = model.metric("fires");
        model.intervals(4000, drift, noise);
        const double rate = (model.metric("fires") - before) / 4000;
        EXPECT_NEAR(rate, budget, 0.2 * budget) << drift << ", " << noise;
      }
    }
  }
}

TEST(GossipTrigger, GoesOnFromItsState) {
  MovingModel whole(change(5)), first(change(5));
  for (int step = 0; step < 33; ++step) {
    whole.step(0.5f, 0.1f);
    first.step(0.5f, 0.1f);
  }
  Payload state;
  base::ByteWriter writer(state);
  first.trigger().save(writer);
  GossipTrigger second(change(5));
  base::ByteReader reader(state, "state");
  second.load(reader);
  reader.expect_end();
  for (int step = 0; step < 50; ++step) {
    const bool due = second.due(whole.movement(), 0.1),
               expected = whole.trigger().due(whole.movement(), 0.1);
    EXPECT_EQ(due, expected);
    EXPECT_EQ(second.threshold(), whole.trigger().threshold());
    second.sent(due);
    whole.trigger().sent(expected);
  }
}

}  // namespace
}  // namespace thinwire::strategy
