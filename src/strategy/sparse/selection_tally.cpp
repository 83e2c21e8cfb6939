#include "strategy/sparse/selection_tally.h"

#include <algorithm>

namespace thinwire::strategy {

void SelectionTally::begin(const Layout& layout) {
  tensors_.clear();
  for (const TensorSlot& tensor : layout.tensors) {
    if (!tensors_.empty()) tensors_.back().end = tensor.offset;
    tensors_.push_back({tensor.name, tensor.offset, layout.numel});
  }
}

void SelectionTally::count(std::span<const std::uint32_t> indices) {
  ++steps_;
  auto first = indices.begin();
  for (Tensor& tensor : tensors_) {
    const auto last = std::lower_bound(first, indices.end(), tensor.end);
    tensor.selected += static_cast<std::uint64_t>(last - first);
    first = last;
  }
}

void SelectionTally::report(std::vector<Metric>& out) const {
  for (const Tensor& tensor : tensors_) {
    const double all = static_cast<double>(tensor.end - tensor.begin);
    out.push_back({tensor.name, static_cast<double>(tensor.selected),
                   all * static_cast<double>(steps_), "selected_share"});
  }
}

}  // namespace thinwire::strategy
