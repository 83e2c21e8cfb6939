#include "trainer/flat_model.h"

#include <algorithm>

namespace thinwire::trainer {
namespace {

// Copies `tensor` to flat[offset, ...) and returns the view that takes its place.
torch::Tensor move_into(torch::Tensor& flat, std::int64_t offset, const torch::Tensor& tensor) {
  torch::Tensor view = flat.narrow(0, offset, tensor.numel()).view(tensor.sizes());
  view.copy_(tensor);
  return view;
}

bool is_float(const torch::Tensor& tensor) { return tensor.dtype() == torch::kFloat32; }

}  // namespace

FlatModel::FlatModel(torch::nn::Module& network) {
  const torch::NoGradGuard no_grad;
  auto parameters = network.named_parameters();
  for (const auto& parameter : parameters) {
    TensorSlot slot{parameter.key(), layout_.numel, {}};
    for (const std::int64_t side : parameter->sizes()) {
      slot.shape.push_back(static_cast<std::size_t>(side));
    }
    layout_.tensors.push_back(std::move(slot));
    layout_.numel += static_cast<std::size_t>(parameter->numel());
  }
  params_ = torch::zeros(static_cast<std::int64_t>(layout_.numel));
  grads_ = torch::zeros(static_cast<std::int64_t>(layout_.numel));
  std::int64_t offset = 0;
  for (auto& parameter : parameters) {
    torch::Tensor& tensor = parameter.value();
    tensor.set_data(move_into(params_, offset, tensor));
    tensor.mutable_grad() = grads_.narrow(0, offset, tensor.numel()).view(tensor.sizes());
    offset += tensor.numel();
  }

  std::int64_t statistics = 0;
  for (const auto& buffer : network.buffers()) statistics += is_float(buffer) ? buffer.numel() : 0;
  statistics_ = torch::zeros(statistics);
  offset = 0;
  for (torch::Tensor& buffer : network.buffers()) {
    if (!is_float(buffer)) continue;
    buffer.set_data(move_into(statistics_, offset, buffer));
    offset += buffer.numel();
  }
}

void FlatModel::zero_grads() { std::ranges::fill(grads(), 0.0f); }

}  // namespace thinwire::trainer
