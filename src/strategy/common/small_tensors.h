// Biases, the parameters of norms and the like, exchanged as they are next to compressed tensors:
// they are few, and some networks suffer when they are late or coarse (Lin et al. 2018).
#pragma once

#include <vector>

#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Tensors with at most one dimension.
bool is_vector(const TensorSlot& tensor);
// Vectors, unless they are too long to be a bias, and all tensors of less than 1024 elements: what
// is not worth being quantized.
bool is_tiny(const TensorSlot& tensor);

class SmallTensors {
 public:
  void find(const Layout& layout, bool (*is_small)(const TensorSlot&) = is_vector);

  // Takes their gradients, weight decay included, out of the model, and what give_back() left in
  // the residual, which may be empty: what a selection accumulates there afterwards is 0.
  void take(const GradientStep& step, MutFloats residual, float weight_decay);
  Floats gradients() const noexcept { return gradients_; }  // that were taken
  // Averages them. False, on all ranks alike, if one is not finite.
  bool exchange(Transport& wire);
  // Puts the means into the model, after the momentum of `sgd`.
  void put(MutFloats grads, const SgdConfig& sgd);
  // If there will be no mean: what was taken is held back instead.
  void give_back(MutFloats residual) const;

  // The state that a checkpoint holds; empty without momentum.
  std::vector<float>& velocity() noexcept { return velocity_; }
  const std::vector<float>& velocity() const noexcept { return velocity_; }
  std::size_t numel() const noexcept { return gradients_.size(); }

 private:
  struct Range {
    std::size_t begin, end;  // in the flat buffers
  };
  template <class Visit>
  void for_each(Visit visit) const {  // visit(where in the flat buffers, where in ours)
    std::size_t at = 0;
    for (const Range& range : ranges_) {
      for (std::size_t i = range.begin; i < range.end; ++i) visit(i, at++);
    }
  }

  std::vector<Range> ranges_;
  std::vector<float> gradients_, means_, velocity_;
  bool finite_ = true;  // the means
};

}  // namespace thinwire::strategy
