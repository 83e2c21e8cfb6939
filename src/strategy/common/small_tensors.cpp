#include "strategy/common/small_tensors.h"

#include <utility>

#include "thinwire/collective.h"

namespace thinwire::strategy {

bool is_vector(const TensorSlot& tensor) { return tensor.shape.size() <= 1; }

bool is_tiny(const TensorSlot& tensor) {
  constexpr std::size_t kShortestLongVector = 65'536, kLeastElements = 1024;
  const std::size_t numel = tensor.numel();
  return numel < kLeastElements || (is_vector(tensor) && numel < kShortestLongVector);
}

void SmallTensors::find(const Layout& layout, bool (*is_small)(const TensorSlot&)) {
  ranges_.clear();
  std::size_t numel = 0;
  for (const TensorSlot& tensor : layout.tensors) {
    if (!is_small(tensor)) continue;
    const std::size_t size = tensor.numel();
    ranges_.push_back({tensor.offset, tensor.offset + size});
    numel += size;
  }
  gradients_.resize(numel);
}

void SmallTensors::take(const GradientStep& step, MutFloats residual, float weight_decay) {
  for_each([&](std::size_t i, std::size_t at) {
    const float decay = weight_decay == 0 ? 0 : weight_decay * step.params[i];
    gradients_[at] = step.grads[i] + decay;
    if (!residual.empty()) gradients_[at] += std::exchange(residual[i], 0.0f);
    step.grads[i] = -decay;  // the selection adds the decay, too
  });
}

bool SmallTensors::exchange(Transport& wire) {
  means_ = gradients_;
  finite_ = means_.empty() || allreduce_mean(wire, means_);
  return finite_;
}

void SmallTensors::put(MutFloats grads, const SgdConfig& sgd) {
  if (sgd.momentum != 0) velocity_.resize(means_.size(), 0.0f);
  previous_ = velocity_;
  for_each([&](std::size_t i, std::size_t at) {
    float direction = means_[at];
    if (finite_ && sgd.momentum != 0) {
      velocity_[at] = sgd.momentum * velocity_[at] + means_[at];
      direction = sgd.nesterov ? means_[at] + sgd.momentum * velocity_[at] : velocity_[at];
    }
    grads[i] = direction;
  });
}

void SmallTensors::undo_put(MutFloats grads) {
  std::swap(velocity_, previous_);
  for_each([&](std::size_t i, std::size_t at) { grads[i] = means_[at]; });
}

void SmallTensors::return_gradients(MutFloats residual) const {
  for_each([&](std::size_t i, std::size_t at) { residual[i] += gradients_[at]; });
}

}  // namespace thinwire::strategy
