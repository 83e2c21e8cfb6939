#include "strategy/small_tensors.h"

#include "thinwire/collective.h"

namespace thinwire {

void SmallTensors::find(const Layout& layout) {
  ranges_.clear();
  std::size_t numel = 0;
  for (const TensorSlot& tensor : layout.tensors) {
    if (tensor.shape.size() > 1) continue;
    const std::size_t size = tensor.shape.empty() ? 1 : tensor.shape[0];
    ranges_.push_back({tensor.offset, tensor.offset + size});
    numel += size;
  }
  gradients_.resize(numel);
}

void SmallTensors::take(const ModelView& model, MutFloats residual, float weight_decay) {
  for_each([&](std::size_t i, std::size_t at) {
    const float decay = weight_decay == 0 ? 0 : weight_decay * model.params[i];
    gradients_[at] = residual[i] + (model.grads[i] + decay);
    residual[i] = 0;
    model.grads[i] = -decay;  // the selection adds the decay, too
  });
}

bool SmallTensors::exchange(Transport& wire) {
  means_ = gradients_;
  finite_ = means_.empty() || allreduce_mean(wire, means_);
  return finite_;
}

void SmallTensors::put(const ModelView& model, const Descent& descent) {
  if (descent.momentum != 0) velocity_.resize(means_.size(), 0.0f);
  for_each([&](std::size_t i, std::size_t at) {
    float direction = means_[at];
    if (finite_ && descent.momentum != 0) {
      velocity_[at] = descent.momentum * velocity_[at] + means_[at];
      direction = descent.nesterov ? means_[at] + descent.momentum * velocity_[at] : velocity_[at];
    }
    model.grads[i] = direction;
  });
}

void SmallTensors::give_back(MutFloats residual) const {
  for_each([&](std::size_t i, std::size_t at) { residual[i] += gradients_[at]; });
}

}  // namespace thinwire
