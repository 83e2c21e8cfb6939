#include "trainer/step_time.h"

#include <gtest/gtest.h>

#include "thinwire/error.h"

namespace thinwire::trainer {
namespace {

TEST(StepTime, KnowsTheSizeOfPublishedModels) {
  EXPECT_EQ(layout_of("lenet").numel, 431'080u);
  EXPECT_EQ(layout_of("resnet20").numel, 269'722u);
  EXPECT_EQ(layout_of("lstm").numel, 4'653'200u);
  EXPECT_THROW(layout_of("lenett"), ConfigError);
}

TEST(StepTime, IsMeasuredForImagesAndSequences) {
  for (const char* model : {"mlp", "resnet20", "lstm"}) {
    const StepTime measured = measure_step(model, 4);
    EXPECT_GT(measured.seconds, Seconds(0)) << model;
    EXPECT_GE(measured.measured_batch, 2u) << model;
    EXPECT_LE(measured.measured_batch, 4u) << model;
  }
}

}  // namespace
}  // namespace thinwire::trainer
