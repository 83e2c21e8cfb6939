// Exchanges small tensors (biases, parameters of normalization layers) in full precision, while
// other tensors are compressed: they have few elements, and some networks lose accuracy if these
// are sent late or rounded (Lin et al. 2018).
#pragma once

#include <vector>

#include "thinwire/strategy.h"

namespace thinwire::strategy {

// Returns whether the tensor has at most one dimension.
bool is_vector(const TensorSlot& tensor);
// Returns whether quantizing the tensor would save too little: it is a vector that is not too long
// to be a bias, or it has less than 1024 elements.
bool is_tiny(const TensorSlot& tensor);

class SmallTensors {
 public:
  // Finds the small tensors of a layout.
  void find(const Layout& layout, bool (*is_small)(const TensorSlot&) = is_vector);

  // Takes the gradients of small tensors, including weight decay, out of step.grads, and adds what
  // return_gradients() left in the residual, which may be empty. A selection that adds its weight
  // decay to step.grads afterwards gets 0 for these elements.
  void take(const GradientStep& step, MutFloats residual, float weight_decay);
  // Returns the gradients that were taken.
  Floats gradients() const noexcept { return gradients_; }
  // Averages the gradients over all ranks. Returns false, on all ranks alike, if one is not finite.
  bool exchange(Transport& wire);
  // Applies the momentum of `sgd` to the means and writes the result to grads.
  void put(MutFloats grads, const SgdConfig& sgd);
  // Undoes put(), except that the means stay in grads.
  void undo_put(MutFloats grads);
  // Adds the gradients that were taken to the residual, if the exchange has failed.
  void return_gradients(MutFloats residual) const;

  // The state that a checkpoint holds; empty without momentum.
  std::vector<float>& velocity() noexcept { return velocity_; }
  const std::vector<float>& velocity() const noexcept { return velocity_; }
  std::size_t numel() const noexcept { return gradients_.size(); }

 private:
  struct Range {
    std::size_t begin, end;  // in the flat buffers
  };
  template <class Visit>
  void for_each(Visit visit) const {  // visit(index in the flat buffers, index in gradients_)
    std::size_t at = 0;
    for (const Range& range : ranges_) {
      for (std::size_t i = range.begin; i < range.end; ++i) visit(i, at++);
    }
  }

  std::vector<Range> ranges_;
  std::vector<float> gradients_, means_, velocity_;
  std::vector<float> previous_;  // velocity_ before the last put()
  bool finite_ = true;           // whether the means are finite
};

}  // namespace thinwire::strategy
