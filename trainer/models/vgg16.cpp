#include <fmt/format.h>

#include "thinwire/error.h"
#include "trainer/models/network.h"

namespace thinwire::trainer {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kPool = 0;
// The channels of the convolutions in their order, with the places of the poolings.
constexpr std::int64_t kWidths[] = {64,    64,  kPool, 128, 128,   kPool, 256, 256, 256,
                                    kPool, 512, 512,   512, kPool, 512,   512, 512, kPool};

// Configuration D of Simonyan & Zisserman 2015 with batch norm, and one linear layer in place of
// three, as is usual for images of 32x32.
class Vgg16 final : public Network {
 public:
  explicit Vgg16(const ExampleShape& shape) : output_(512, shape.classes) {
    std::int64_t in = shape.channels;
    for (const std::int64_t width : kWidths) {
      if (width == kPool) {
        features_->push_back(nn::MaxPool2d(2));
        continue;
      }
      features_->push_back(nn::Conv2d(nn::Conv2dOptions(in, width, 3).padding(1)));
      features_->push_back(nn::BatchNorm2d(width));
      features_->push_back(nn::ReLU(nn::ReLUOptions().inplace(true)));
      in = width;
    }
    register_module("features", features_);
    register_module("output", output_);
    initialise_convolutions(*this);
  }
  torch::Tensor forward(torch::Tensor x) override {
    x = features_->forward(x);
    return output_(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  nn::Sequential features_;
  nn::Linear output_;
};

}  // namespace

std::shared_ptr<Network> make_vgg16(const ExampleShape& shape) {
  require_images("vgg16", shape);
  if (shape.height < 32 || shape.width < 32) {
    throw ConfigError(
        fmt::format("model 'vgg16': the images are too small ({}x{}); at least 32x32 is needed",
                    shape.height, shape.width));
  }
  return std::make_shared<Vgg16>(shape);
}

}  // namespace thinwire::trainer
