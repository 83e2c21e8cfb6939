// Biases and the parameters of norms (tensors with at most one dimension), exchanged dense beside a
// sparse rest: they are few, and some networks suffer when they are late (Lin et al. 2018).
#pragma once

#include <vector>

#include "thinwire/strategy.h"

namespace thinwire {

class SmallTensors {
 public:
  void find(const Layout& layout);

  // Takes their gradients, weight decay included, out of the model, and what give_back() left in
  // the residual: what a selection accumulates there afterwards is 0.
  void take(const ModelView& model, MutFloats residual, float weight_decay);
  // Averages them. False, on all ranks alike, if one is not finite.
  bool exchange(Transport& wire);
  // Puts the means into the model, after the momentum of `descent`.
  void put(const ModelView& model, const Descent& descent);
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

}  // namespace thinwire
