#include "strategy/lowrank/low_rank.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace thinwire::strategy {
namespace {

constexpr std::size_t kLeastGain = 2;

std::size_t product(std::span<const std::size_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{1}, std::multiplies<>());
}

bool pays(const kernel::LowRankShape& shape) {
  return shape.rank > 0 && kLeastGain * (shape.p_numel() + shape.q_numel()) <= shape.numel();
}

}  // namespace

LowRankLayout low_rank_layout(const Layout& layout, std::size_t rank) {
  LowRankLayout plan;
  for (const TensorSlot& tensor : layout.tensors) {
    const std::span<const std::size_t> sizes = tensor.shape;
    kernel::LowRankShape shape;
    if (sizes.size() > 1) {
      shape = {sizes[0], product(sizes.subspan(1)), 0};
      shape.rank = std::min({rank, shape.rows, shape.columns});
    }
    if (pays(shape)) {
      plan.matrices.push_back(
          {shape, tensor.offset, plan.matrix_numel, plan.p_numel, plan.q_numel});
      plan.matrix_numel += shape.numel();
      plan.p_numel += shape.p_numel();
      plan.q_numel += shape.q_numel();
      continue;
    }
    const std::size_t numel = product(sizes);
    plan.exact_numel += numel;
    if (!plan.exact.empty() && plan.exact.back().begin + plan.exact.back().size == tensor.offset) {
      plan.exact.back().size += numel;
    } else {
      plan.exact.push_back({tensor.offset, numel});
    }
  }
  return plan;
}

}  // namespace thinwire::strategy
