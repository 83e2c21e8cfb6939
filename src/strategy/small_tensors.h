// Biases and the parameters of norms (tensors with at most one dimension), exchanged dense beside a
// sparse rest: they are few, and some networks suffer when they are late (Lin et al. 2018).
#pragma once

#include <vector>

#include "thinwire/strategy.h"

namespace thinwire {

class SmallTensors {
 public:
  void find(const Layout& layout);

  // Takes their gradients, weight decay included, out of the model: what a selection accumulates
  // there afterwards is 0.
  void take(const ModelView& model, float weight_decay);
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
