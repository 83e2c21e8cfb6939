// How a model strategy changes the length of a worker's step.
#include <gtest/gtest.h>

#include "testing/ranks.h"
#include "thinwire/session.h"

namespace thinwire {
namespace {

// Averages nothing. The scale alternates, as it does in gossip when weight leaves and returns.
class AlternatingScale final : public ModelStrategy {
 public:
  explicit AlternatingScale(std::uint64_t dense_steps) : dense_(dense_steps) {}

  SyncMode sync_mode() const override { return SyncMode::periodic; }
  std::uint64_t dense_steps(const RunOptions&) const override { return dense_; }
  void begin(const StrategyContext&, Floats, std::uint64_t) override {}
  double step_scale() const override { return steps_ % 2 == 0 ? 2 : 0.5; }
  void after_step(const ModelStep&) override { ++steps_; }
  void end(const StrategyContext&, MutFloats) override {}

 private:
  std::uint64_t dense_;
  std::uint64_t steps_ = 0;
};

// Returns the parameter of rank 0 after six steps with a gradient of 1.
float trained(std::uint64_t dense_steps, const SgdConfig& sgd, int workers = 2) {
  float out = 0;
  test::on_ranks(workers, [&](Transport& wire) {
    const Layout layout{{{"all", 0, {1}}}, 1};
    std::vector<float> params{1}, grads(1);
    SessionOptions options;
    options.run.sgd = sgd;
    Session session(wire, options, std::make_unique<AlternatingScale>(dense_steps));
    session.begin({params, grads, layout}, 0);
    for (int step = 0; step < 6; ++step) {
      grads[0] = 1;
      const Update update = session.exchange({params, grads, layout});
      EXPECT_EQ(session.step_scale(), workers == 1 || session.step() < dense_steps ? 1
                                      : session.step() % 2 == 0                    ? 2
                                                                                   : 0.5);
      session.apply({params, grads, layout}, update, 0.25f);
      session.finish_step({params, grads, layout});
    }
    session.end({params, grads, layout});
    if (wire.rank() == 0) out = params[0];
  });
  return out;
}

// The scale belongs to the rate of its own step: momentum must not hold it.
TEST(StepScale, MultipliesTheLearningRateOfOneStep) {
  for (const float momentum : {0.0f, 0.5f}) {
    for (const float decay : {0.0f, 0.5f}) {
      float expected = 1, velocity = 0;
      for (int step = 0; step < 6; ++step) {
        velocity = momentum * velocity + (1 + decay * expected);
        expected -= 0.25f * (step % 2 == 0 ? 2.0f : 0.5f) * velocity;
      }
      EXPECT_EQ(trained(0, {momentum, decay, false}), expected) << momentum << ", " << decay;
    }
  }
}

TEST(StepScale, IsOneInDenseStepsAndAlone) {
  const float plain = 1 - 6 * 0.25f;
  EXPECT_EQ(trained(6, {}), plain);
  EXPECT_EQ(trained(0, {}, 1), plain);
}

}  // namespace
}  // namespace thinwire
