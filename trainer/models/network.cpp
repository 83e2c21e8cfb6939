#include "trainer/models/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/random.h"
#include "base/spec.h"
#include "thinwire/error.h"

namespace thinwire::trainer {

#define TW_MODEL(word, published, help) \
  std::shared_ptr<Network> make_##word(const ExampleShape& shape);
#include "trainer/models/list.inc"
#undef TW_MODEL

namespace {
#define TW_MODEL(word, published, help) ModelEntry{#word, help, make_##word},
constexpr ModelEntry kModels[] = {
#include "trainer/models/list.inc"
};
#undef TW_MODEL
}  // namespace

std::span<const ModelEntry> models() { return kModels; }

std::shared_ptr<Network> make_network(std::string_view name, const ExampleShape& shape,
                                      std::uint64_t seed) {
  const auto found = std::find_if(std::begin(kModels), std::end(kModels),
                                  [&](const ModelEntry& model) { return model.name == name; });
  if (found == std::end(kModels)) {
    std::vector<std::string> known;
    for (const ModelEntry& model : kModels) known.emplace_back(model.name);
    throw ConfigError(base::unknown_name("model", name, known));
  }
  static std::mutex torch_generator;
  const std::lock_guard lock(torch_generator);
  torch::manual_seed(seed);
  return found->make(shape);
}

torch::Tensor PhiloxDropoutImpl::forward(const torch::Tensor& input) {
  if (!is_training() || rate_ <= 0) return input;
  torch::Tensor mask = torch::empty(input.sizes(), torch::kFloat32);
  float* out = mask.data_ptr<float>();
  const auto count = static_cast<std::uint64_t>(mask.numel());
  const auto keep = static_cast<float>(1 / (1 - rate_));
  const auto limit = static_cast<float>(rate_);
  const std::uint64_t seed = random_.seed + (random_.worker << 32);
  const std::uint64_t first = static_cast<std::uint64_t>(layer_) << 32;
  for (std::uint64_t i = 0; i < count; i += 4) {
    const auto block = base::philox(seed, random_.step, first + i / 4, base::Purpose::dropout);
    for (std::uint64_t j = i; j < std::min(i + 4, count); ++j) {
      out[j] = base::unit_float(block[j - i]) < limit ? 0.0f : keep;
    }
  }
  return input * mask;
}

void initialise_convolutions(torch::nn::Module& module) {
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (auto* convolution = part->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(convolution->weight, 0.0, torch::kFanOut, torch::kReLU);
    }
  }
}

void require_images(std::string_view model, const ExampleShape& shape) {
  if (shape.kind != ExampleShape::Kind::image) {
    throw ConfigError(fmt::format(
        "model '{}': the data must be images, not sequences; use the model 'lstm'", model));
  }
}

}  // namespace thinwire::trainer
