#include "trainer/models/network.h"

namespace thinwire::trainer {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kSmallestSide = 63;  // smaller images are empty after the pooling layers

// The one-tower form of Krizhevsky 2014 ("One weird trick"). Images that are too small are scaled
// up.
class AlexNet final : public Network {
 public:
  explicit AlexNet(const ExampleShape& shape)
      : dropout1_(0.5, 1, random), dropout2_(0.5, 2, random) {
    const auto convolution = [&](std::int64_t in, std::int64_t out, std::int64_t side,
                                 std::int64_t stride, std::int64_t padding) {
      features_->push_back(
          nn::Conv2d(nn::Conv2dOptions(in, out, side).stride(stride).padding(padding)));
      features_->push_back(nn::ReLU(nn::ReLUOptions().inplace(true)));
    };
    const auto pool = [&] {
      features_->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2)));
    };
    convolution(shape.channels, 64, 11, 4, 2);
    pool();
    convolution(64, 192, 5, 1, 2);
    pool();
    convolution(192, 384, 3, 1, 1);
    convolution(384, 256, 3, 1, 1);
    convolution(256, 256, 3, 1, 1);
    pool();
    register_module("features", features_);
    hidden1_ = register_module("hidden1", nn::Linear(256 * 6 * 6, 4096));
    hidden2_ = register_module("hidden2", nn::Linear(4096, 4096));
    output_ = register_module("output", nn::Linear(4096, shape.classes));
    register_module("dropout1", dropout1_);
    register_module("dropout2", dropout2_);
  }
  torch::Tensor forward(torch::Tensor x) override {
    if (x.size(2) < kSmallestSide || x.size(3) < kSmallestSide) {
      x = torch::upsample_bilinear2d(x, {kSmallestSide, kSmallestSide}, /*align_corners=*/false);
    }
    x = torch::adaptive_avg_pool2d(features_->forward(x), {6, 6}).flatten(1);
    x = torch::relu(hidden1_(dropout1_(x)));
    x = torch::relu(hidden2_(dropout2_(x)));
    return output_(x);
  }

 private:
  nn::Sequential features_;
  PhiloxDropout dropout1_, dropout2_;
  nn::Linear hidden1_{nullptr}, hidden2_{nullptr}, output_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_alexnet(const ExampleShape& shape) {
  require_images("alexnet", shape);
  return std::make_shared<AlexNet>(shape);
}

}  // namespace thinwire::trainer
