#include "strategy/gossip/own_movement.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace thinwire::strategy {
namespace {

TEST(OwnMovement, IsTheLengthOfAllStepsTogether) {
  std::vector<float> params(4, 1.0f);
  OwnMovement movement;
  movement.begin(params);
  EXPECT_EQ(movement.sent_at(), 2.0);
  for (int step = 1; step <= 5; ++step) {
    params[0] += 3;
    params[1] += 4;
    movement.stepped(params);
    EXPECT_DOUBLE_EQ(movement.last_step(), 5.0);
    EXPECT_DOUBLE_EQ(movement.length(), 5.0 * step);
  }
  params[0] -= 15;  // back where it came from
  params[1] -= 20;
  movement.stepped(params);
  EXPECT_EQ(movement.length(), 0.0);
}

TEST(OwnMovement, ModelsOfOthersDoNotCount) {
  std::vector<float> params(10, 1.0f);
  OwnMovement movement;
  movement.begin(params);
  params[3] += 2;
  movement.stepped(params);
  for (float& value : params) value += 100;
  movement.merged(params);
  EXPECT_DOUBLE_EQ(movement.length(), 2.0);
  params[4] += 2;
  movement.stepped(params);
  EXPECT_DOUBLE_EQ(movement.last_step(), 2.0);
  EXPECT_DOUBLE_EQ(movement.length(), std::sqrt(8.0));
  movement.sent();
  EXPECT_EQ(movement.length(), 0.0);
  movement.stepped(params);
  EXPECT_EQ(movement.length(), 0.0);
}

TEST(OwnMovement, ASampleOfALargeModelGivesTheRatio) {
  std::vector<float> params(1'000'000);
  OwnMovement movement;
  movement.begin(params);
  EXPECT_LE(movement.moved().size(), 2 * OwnMovement::kSample);
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      params[i] += base::unit_float(base::philox(1, step, i, base::Purpose::test)[0]) - 0.5f;
    }
    movement.stepped(params);
  }
  EXPECT_NEAR(movement.length() / movement.last_step(), 2.0, 0.02);  // sqrt(4): steps of pure noise
}

}  // namespace
}  // namespace thinwire::strategy
