#include "trainer/models/network.h"

#include <gtest/gtest.h>

#include "thinwire/error.h"

namespace thinwire::trainer {
namespace {

ExampleShape images(std::int64_t channels, std::int64_t side, std::int64_t classes) {
  return {ExampleShape::Kind::image, channels, side, side, 0, classes};
}
ExampleShape sequences(std::int64_t length, std::int64_t vocabulary) {
  return {ExampleShape::Kind::sequence, 0, 0, 0, length, vocabulary};
}

std::int64_t parameters(std::string_view name, const ExampleShape& shape) {
  std::int64_t sum = 0;
  for (const auto& tensor : make_network(name, shape, 1)->parameters()) sum += tensor.numel();
  return sum;
}

TEST(Networks, HaveThePublishedNumberOfParameters) {
  EXPECT_EQ(parameters("mlp", images(1, 28, 10)), 266'610);
  EXPECT_EQ(parameters("lenet", images(1, 28, 10)), 431'080);
  EXPECT_EQ(parameters("resnet8", images(3, 32, 10)), 75'290);
  EXPECT_EQ(parameters("resnet20", images(3, 32, 10)), 269'722);
  EXPECT_EQ(parameters("vgg16", images(3, 32, 10)), 14'728'266);
  EXPECT_EQ(parameters("resnet50", images(3, 224, 1000)), 25'557'032);
  EXPECT_EQ(parameters("alexnet", images(3, 224, 1000)), 61'100'840);
  EXPECT_EQ(parameters("lstm", sequences(35, 10'000)), 4'653'200);
}

TEST(Networks, GiveOneRowOfLogitsPerLabel) {
  const torch::NoGradGuard no_grad;
  for (const ModelEntry& model : models()) {
    const bool text = model.name == "lstm";
    const ExampleShape shape = text ? sequences(7, 50) : images(3, 32, 10);
    const auto network = make_network(model.name, shape, 1);
    const torch::Tensor input =
        text ? torch::zeros({4, 7}, torch::kInt64) : torch::zeros({4, 3, 32, 32}, torch::kFloat32);
    const torch::Tensor logits = network->forward(input);
    EXPECT_EQ(logits.size(0), text ? 28 : 4) << model.name;
    EXPECT_EQ(logits.size(1), shape.classes) << model.name;
  }
}

TEST(Networks, AreAFunctionOfTheSeed) {
  const auto first = [](std::uint64_t seed) {
    return make_network("lenet", images(1, 28, 10), seed)->parameters()[0].clone();
  };
  EXPECT_TRUE(first(3).equal(first(3)));
  EXPECT_FALSE(first(3).equal(first(4)));
}

TEST(Networks, RefuseWhatTheyCannotTake) {
  EXPECT_THROW(make_network("lenett", images(1, 28, 10), 1), ConfigError);
  EXPECT_THROW(make_network("lenet", sequences(7, 50), 1), ConfigError);
  EXPECT_THROW(make_network("lenet", images(1, 8, 10), 1), ConfigError);
  EXPECT_THROW(make_network("vgg16", images(1, 28, 10), 1), ConfigError);
  EXPECT_THROW(make_network("lstm", images(1, 28, 10), 1), ConfigError);
}

TEST(Dropout, IsAFunctionOfSeedStepAndWorker) {
  StepRandom random{1, 2, 0};
  PhiloxDropout dropout(0.5, 1, random);
  const torch::Tensor ones = torch::ones({1000});
  const torch::Tensor first = dropout(ones);
  EXPECT_TRUE(dropout(ones).equal(first));
  const double kept = first.count_nonzero().item<double>();
  EXPECT_NEAR(kept, 500, 80);
  EXPECT_EQ(first.max().item<float>(), 2.0f);
  random.worker = 1;
  EXPECT_FALSE(dropout(ones).equal(first));
  random = {1, 3, 0};
  EXPECT_FALSE(dropout(ones).equal(first));
  dropout->eval();
  EXPECT_TRUE(dropout(ones).equal(ones));
}

}  // namespace
}  // namespace thinwire::trainer
