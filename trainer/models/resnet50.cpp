#include "trainer/models/network.h"

namespace thinwire::trainer {
namespace {

namespace nn = torch::nn;

nn::Sequential normed_convolution(std::int64_t in, std::int64_t out, std::int64_t side,
                                  std::int64_t stride) {
  return nn::Sequential(
      nn::Conv2d(nn::Conv2dOptions(in, out, side).stride(stride).padding(side / 2).bias(false)),
      nn::BatchNorm2d(out));
}

// A bottleneck block: a 1x1 convolution to fewer channels, a 3x3 convolution, and a 1x1 convolution
// to four times as many.
class Bottleneck final : public nn::Module {
 public:
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
      : narrow_(normed_convolution(in, width, 1, 1)),
        work_(normed_convolution(width, width, 3, stride)),
        widen_(normed_convolution(width, 4 * width, 1, 1)) {
    register_module("narrow", narrow_);
    register_module("work", work_);
    register_module("widen", widen_);
    if (in != 4 * width || stride != 1) {
      shortcut_ = register_module("shortcut", normed_convolution(in, 4 * width, 1, stride));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = torch::relu(narrow_->forward(x));
    y = torch::relu(work_->forward(y));
    y = widen_->forward(y);
    return torch::relu(y + (shortcut_ ? shortcut_->forward(x) : x));
  }

 private:
  nn::Sequential narrow_, work_, widen_;
  nn::Sequential shortcut_{nullptr};
};

class ResNet50 final : public Network {
 public:
  explicit ResNet50(const ExampleShape& shape)
      : stem_(normed_convolution(shape.channels, 64, 7, 2)), output_(2048, shape.classes) {
    register_module("stem", stem_);
    constexpr struct {
      std::int64_t width;
      int blocks;
    } kStages[] = {{64, 3}, {128, 4}, {256, 6}, {512, 3}};
    std::int64_t in = 64;
    for (const auto& stage : kStages) {
      for (int block = 0; block < stage.blocks; ++block) {
        const std::int64_t stride = block == 0 && stage.width != 64 ? 2 : 1;
        blocks_.push_back(register_module("block" + std::to_string(blocks_.size()),
                                          std::make_shared<Bottleneck>(in, stage.width, stride)));
        in = 4 * stage.width;
      }
    }
    register_module("output", output_);
    initialise_convolutions(*this);
  }
  torch::Tensor forward(torch::Tensor x) override {
    x = torch::max_pool2d(torch::relu(stem_->forward(x)), 3, 2, 1);
    for (const auto& block : blocks_) x = block->forward(x);
    return output_(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  nn::Sequential stem_;
  std::vector<std::shared_ptr<Bottleneck>> blocks_;
  nn::Linear output_;
};

}  // namespace

std::shared_ptr<Network> make_resnet50(const ExampleShape& shape) {
  require_images("resnet50", shape);
  return std::make_shared<ResNet50>(shape);
}

}  // namespace thinwire::trainer
