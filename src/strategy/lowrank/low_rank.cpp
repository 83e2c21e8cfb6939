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

kernel::LowRankShape shape_at(std::span<const std::size_t> sizes, std::size_t rank) {
  if (sizes.size() < 2) return {};
  const std::size_t rows = sizes[0], columns = product(sizes.subspan(1));
  return {rows, columns, std::min({rank, rows, columns})};
}

void append_exact(std::vector<ExactRange>& exact, const ExactRange& range) {
  if (exact.empty() || range.has_error || exact.back().has_error ||
      exact.back().begin + exact.back().size != range.begin) {
    exact.push_back(range);
  } else {
    exact.back().size += range.size;
  }
}

}  // namespace

LowRankLayout low_rank_layout(const Layout& layout, std::size_t rank, std::size_t lowest_rank) {
  LowRankLayout out;
  for (const TensorSlot& tensor : layout.tensors) {
    const kernel::LowRankShape shape = shape_at(tensor.shape, rank);
    const bool has_error = pays(shape_at(tensor.shape, lowest_rank));
    const std::size_t numel = product(tensor.shape);
    if (pays(shape)) {
      out.matrices.push_back({shape, tensor.offset, out.error_numel, out.p_numel, out.q_numel});
      out.p_numel += shape.p_numel();
      out.q_numel += shape.q_numel();
    } else {
      append_exact(out.exact, {tensor.offset, numel, has_error, out.error_numel});
      out.exact_numel += numel;
    }
    if (has_error) out.error_numel += numel;
  }
  return out;
}

}  // namespace thinwire::strategy
