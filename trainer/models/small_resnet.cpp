#include "trainer/models/small_resnet.h"

#include <vector>

namespace thinwire::trainer {
namespace {

namespace nn = torch::nn;

nn::Conv2d convolution3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

// Two 3x3 convolutions around an identity. Where the size changes, the identity takes every other
// pixel and pads the new channels with zeros (option A of the paper): it has no parameters.
class PlainBlock final : public nn::Module {
 public:
  PlainBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : stride_(stride),
        padding_((out - in) / 2),
        convolution1_(convolution3x3(in, out, stride)),
        convolution2_(convolution3x3(out, out, 1)),
        norm1_(out),
        norm2_(out) {
    register_module("convolution1", convolution1_);
    register_module("norm1", norm1_);
    register_module("convolution2", convolution2_);
    register_module("norm2", norm2_);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = torch::relu(norm1_(convolution1_(x)));
    y = norm2_(convolution2_(y));
    return torch::relu(y + shortcut(x));
  }

 private:
  torch::Tensor shortcut(const torch::Tensor& x) const {
    if (stride_ == 1) return x;
    using torch::indexing::Slice;
    const Slice every_other(torch::indexing::None, torch::indexing::None, stride_);
    return torch::constant_pad_nd(x.index({Slice(), Slice(), every_other, every_other}),
                                  {0, 0, 0, 0, padding_, padding_});
  }

  std::int64_t stride_, padding_;
  nn::Conv2d convolution1_, convolution2_;
  nn::BatchNorm2d norm1_, norm2_;
};

class SmallResNet final : public Network {
 public:
  SmallResNet(const ExampleShape& shape, int blocks_per_width)
      : stem_(convolution3x3(shape.channels, 16, 1)), norm_(16), output_(64, shape.classes) {
    register_module("stem", stem_);
    register_module("norm", norm_);
    std::int64_t in = 16;
    for (const std::int64_t width : {16, 32, 64}) {
      for (int block = 0; block < blocks_per_width; ++block) {
        const std::int64_t stride = width != in ? 2 : 1;
        blocks_.push_back(register_module("block" + std::to_string(blocks_.size()),
                                          std::make_shared<PlainBlock>(in, width, stride)));
        in = width;
      }
    }
    register_module("output", output_);
    initialise_convolutions(*this);
  }
  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(norm_(stem_(x)));
    for (const auto& block : blocks_) x = block->forward(x);
    return output_(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  nn::Conv2d stem_;
  nn::BatchNorm2d norm_;
  std::vector<std::shared_ptr<PlainBlock>> blocks_;
  nn::Linear output_;
};

}  // namespace

std::shared_ptr<Network> make_small_resnet(std::string_view name, const ExampleShape& shape,
                                           int blocks_per_width) {
  require_images(name, shape);
  return std::make_shared<SmallResNet>(shape, blocks_per_width);
}

}  // namespace thinwire::trainer
