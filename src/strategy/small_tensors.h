// Biases, the parameters of norms and the like, exchanged as they are beside a compressed rest:
// they are few, and some networks suffer when they are late or coarse (Lin et al. 2018).
#pragma once

#include <vector>

#include "thinwire/strategy.h"

namespace thinwire {

// Tensors with at most one dimension.
bool is_vector(const TensorSlot& tensor);
// Vectors, unless they are too long to be a bias, and all tensors of less than 1024 elements: what
// is not worth being quantized.
bool is_tiny(const TensorSlot& tensor);

class SmallTensors {
 public:
  void find(const Layout& layout, bool (*is_small)(const TensorSlot&) = is_vector);

  // Takes their gradients, weight decay included, out of the model: what a selection accumulates
  // there afterwards is 0.
  void take(const ModelView& model, float weight_decay);
  Floats gradients() const noexcept { return gradients_; }  // that were taken
  // Averages them and puts them back, after the momentum of `descent`. False, on all ranks alike,
  // if one is not finite.
  bool exchange(const ModelView& model, Transport& wire, const Descent& descent);

  // The state that a checkpoint holds; empty without momentum.
  std::vector<float>& velocity() noexcept { return velocity_; }
  const std::vector<float>& velocity() const noexcept { return velocity_; }
  std::size_t numel() const noexcept { return gradients_.size(); }

 private:
  struct Range {
    std::size_t begin, end;  // in the flat buffers
  };
  std::vector<Range> ranges_;
  std::vector<float> gradients_, velocity_;
};

}  // namespace thinwire
