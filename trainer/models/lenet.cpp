#include <fmt/format.h>

#include "thinwire/error.h"
#include "trainer/models/network.h"

namespace thinwire::trainer {
namespace {

class LeNet final : public Network {
 public:
  explicit LeNet(const ExampleShape& shape)
      : convolution1_(torch::nn::Conv2dOptions(shape.channels, 20, 5)),
        convolution2_(torch::nn::Conv2dOptions(20, 50, 5)),
        hidden_(50 * pooled(shape.height) * pooled(shape.width), 500),
        output_(500, shape.classes) {
    register_module("convolution1", convolution1_);
    register_module("convolution2", convolution2_);
    register_module("hidden", hidden_);
    register_module("output", output_);
  }
  torch::Tensor forward(torch::Tensor x) override {
    x = torch::max_pool2d(convolution1_(x), 2);
    x = torch::max_pool2d(convolution2_(x), 2);
    return output_(torch::relu(hidden_(x.flatten(1))));
  }
  // Returns the side after two layers, each a 5x5 filter without padding and pooling by 2.
  static std::int64_t pooled(std::int64_t side) { return ((side - 4) / 2 - 4) / 2; }

 private:
  torch::nn::Conv2d convolution1_, convolution2_;
  torch::nn::Linear hidden_, output_;
};

}  // namespace

std::shared_ptr<Network> make_lenet(const ExampleShape& shape) {
  require_images("lenet", shape);
  if (shape.height < 16 || shape.width < 16) {
    throw ConfigError(
        fmt::format("model 'lenet': the images are too small ({}x{}); at least 16x16 is needed",
                    shape.height, shape.width));
  }
  return std::make_shared<LeNet>(shape);
}

}  // namespace thinwire::trainer
