// Neural networks by name. Only trainer/ uses libtorch.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "trainer/data/dataset.h"

namespace thinwire::trainer {

// Identifies the random numbers of one step, for dropout. Set before each forward pass.
struct StepRandom {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t worker = 0;
};

class Network : public torch::nn::Module {
 public:
  // Returns the logits, one row per label: images [n, c, h, w] -> [n, classes], tokens [n, length]
  // -> [n * length, classes].
  virtual torch::Tensor forward(torch::Tensor input) = 0;

  StepRandom random;
};

// Dropout whose mask is a function of (seed, step, worker, layer): the same on every transport, and
// after a resume.
class PhiloxDropoutImpl : public torch::nn::Module {
 public:
  PhiloxDropoutImpl(double rate, std::uint32_t layer, const StepRandom& random)
      : rate_(rate), layer_(layer), random_(random) {}
  torch::Tensor forward(const torch::Tensor& input);

 private:
  double rate_;
  std::uint32_t layer_;
  const StepRandom& random_;  // of the network that owns this layer
};
TORCH_MODULE(PhiloxDropout);

// One line of trainer/models/list.inc.
struct ModelEntry {
  std::string_view name;
  std::string_view help;
  std::shared_ptr<Network> (*make)(const ExampleShape& shape);
};
std::span<const ModelEntry> models();

// Returns a network of that name for examples of this shape, with weights that are a function of
// the seed. Throws ConfigError if the name is unknown (with the closest one) or if the network
// cannot use such examples. Thread-safe: torch's global random generator is used under a lock.
std::shared_ptr<Network> make_network(std::string_view name, const ExampleShape& shape,
                                      std::uint64_t seed);

// Initializes the weights of convolutions by He et al. 2015 (fan out), as in the ResNet paper.
void initialise_convolutions(torch::nn::Module& module);

// Throws ConfigError unless the examples are images.
void require_images(std::string_view model, const ExampleShape& shape);

}  // namespace thinwire::trainer
