#include "strategy/small_tensors.h"

#include "thinwire/collective.h"

namespace thinwire {

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

void SmallTensors::take(const ModelView& model, float weight_decay) {
  std::size_t at = 0;
  for (const Range& range : ranges_) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const float decay = weight_decay == 0 ? 0 : weight_decay * model.params[i];
      gradients_[at++] = model.grads[i] + decay;
      model.grads[i] = -decay;  // the selection adds the decay, too
    }
  }
}

bool SmallTensors::exchange(const ModelView& model, Transport& wire, const Descent& descent) {
  if (gradients_.empty()) return true;
  const bool finite = allreduce_mean(wire, gradients_);
  if (descent.momentum != 0) velocity_.resize(gradients_.size(), 0.0f);
  std::size_t at = 0;
  for (const Range& range : ranges_) {
    for (std::size_t i = range.begin; i < range.end; ++i, ++at) {
      float direction = gradients_[at];
      if (finite && descent.momentum != 0) {
        velocity_[at] = descent.momentum * velocity_[at] + gradients_[at];
        direction =
            descent.nesterov ? gradients_[at] + descent.momentum * velocity_[at] : velocity_[at];
      }
      model.grads[i] = direction;
    }
  }
  return finite;
}

}  // namespace thinwire
