#include "thinwire/error.h"
#include "trainer/models/network.h"

namespace thinwire::trainer {
namespace {

constexpr std::int64_t kWidth = 200;

// Each window of tokens starts from an empty state, so that windows can be shuffled and distributed
// over workers.
class Lstm final : public Network {
 public:
  explicit Lstm(const ExampleShape& shape)
      : embedding_(shape.classes, kWidth),
        layers_(torch::nn::LSTMOptions(kWidth, kWidth).num_layers(2).batch_first(true)),
        output_(kWidth, shape.classes) {
    register_module("embedding", embedding_);
    register_module("layers", layers_);
    register_module("output", output_);
    torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters()) torch::nn::init::uniform_(parameter, -0.1, 0.1);
  }
  torch::Tensor forward(torch::Tensor tokens) override {
    const torch::Tensor states = std::get<0>(layers_(embedding_(tokens)));
    return output_(states.reshape({-1, kWidth}));
  }

 private:
  torch::nn::Embedding embedding_;
  torch::nn::LSTM layers_;
  torch::nn::Linear output_;
};

}  // namespace

std::shared_ptr<Network> make_lstm(const ExampleShape& shape) {
  if (shape.kind != ExampleShape::Kind::sequence) {
    throw ConfigError(
        "model 'lstm': the data must be sequences, not images; use the data set 'text:FILE'");
  }
  return std::make_shared<Lstm>(shape);
}

}  // namespace thinwire::trainer
