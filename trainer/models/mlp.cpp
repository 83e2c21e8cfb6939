#include "trainer/models/network.h"

namespace thinwire::trainer {
namespace {

class Mlp final : public Network {
 public:
  explicit Mlp(const ExampleShape& shape)
      : hidden1_(static_cast<std::int64_t>(shape.floats()), 300),
        hidden2_(300, 100),
        output_(100, shape.classes) {
    register_module("hidden1", hidden1_);
    register_module("hidden2", hidden2_);
    register_module("output", output_);
  }
  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(hidden1_(x.flatten(1)));
    return output_(torch::relu(hidden2_(x)));
  }

 private:
  torch::nn::Linear hidden1_, hidden2_, output_;
};

}  // namespace

std::shared_ptr<Network> make_mlp(const ExampleShape& shape) {
  require_images("mlp", shape);
  return std::make_shared<Mlp>(shape);
}

}  // namespace thinwire::trainer
