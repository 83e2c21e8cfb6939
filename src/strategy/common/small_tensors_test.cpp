#include "strategy/common/small_tensors.h"

#include <gtest/gtest.h>

#include "testing/ranks.h"

namespace thinwire::strategy {
namespace {

const Layout kLayout{{{"matrix", 0, {2, 2}}, {"bias", 4, {2}}}, 6};

// After undo_put() a step leaves the same velocity as if it had not been, and the means.
TEST(SmallTensors, CanUndoWhatTheyPut) {
  test::on_ranks(2, [](Transport& wire) {
    const SgdConfig sgd{.momentum = 0.5f};
    RunOptions run;
    Stats stats;
    const LogSink silent;
    SmallTensors small;
    small.find(kLayout);
    std::vector<float> residual(kLayout.numel);
    const auto step = [&](float value) {
      std::vector<float> grads(kLayout.numel, value * static_cast<float>(1 + 2 * wire.rank()));
      small.take({{wire, kLayout, run, stats, silent}, 0, {}, grads}, residual, 0);
      EXPECT_TRUE(small.exchange(wire));
      small.put(grads, sgd);
      return grads;
    };
    step(1);
    const std::vector<float> velocity = small.velocity();
    std::vector<float> grads = step(4);
    EXPECT_EQ(grads[5], 8 + 0.5f * 2);
    small.undo_put(grads);
    EXPECT_EQ(grads[5], 8);
    EXPECT_EQ(small.velocity(), velocity);
  });
}

}  // namespace
}  // namespace thinwire::strategy
