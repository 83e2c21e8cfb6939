#include "plan/synthetic_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/random.h"

namespace thinwire::plan {
namespace {

// Each further factor of two has half the chance.
float gradient_of(std::uint32_t bits) {
  const int size = static_cast<int>(bits >> 25);  // 7 bits
  const int doublings = std::min(std::countr_zero(bits | 0x10u), 4);
  const int magnitude = size << doublings;
  return static_cast<float>((bits >> 24 & 1u) != 0 ? -magnitude : magnitude) * 0x1.0p-11f;
}

// Four gradients of a rank come from one block.
std::array<std::uint32_t, 4> block_of(std::uint64_t seed, int rep, int rank, std::size_t block) {
  const auto step = static_cast<std::uint64_t>(rep) << 32 | static_cast<std::uint64_t>(rank);
  return base::philox(seed, step, block, base::Purpose::bench);
}

void append(Layout& to, std::vector<std::size_t> shape) {
  TensorSlot tensor{fmt::format("layer{}", to.tensors.size()), to.numel, std::move(shape)};
  if (tensor.numel() == 0) return;
  to.numel += tensor.numel();
  to.tensors.push_back(std::move(tensor));
}

// Returns whether no strategy compresses the tensor by its shape.
bool is_small(const TensorSlot& tensor) {
  constexpr std::size_t kLeastElements = 1024;
  return tensor.shape.size() <= 1 || tensor.numel() < kLeastElements;
}

std::size_t at_least_one(double count) { return static_cast<std::size_t>(std::max(1.0, count)); }

}  // namespace

Layout layered(std::size_t numel, std::size_t side) {
  Layout out;
  while (numel - out.numel >= side * side) append(out, {side, side});
  append(out, {(numel - out.numel) / side, side});
  append(out, {numel - out.numel});
  return out;
}

// n matrices of r rows and c columns have n r rows, n c columns and n r c elements.
LayoutSummary summarize_layout(const Layout& model) {
  double elements = 0, rows = 0, columns = 0, small_numel = 0;
  for (const TensorSlot& tensor : model.tensors) {
    const auto numel = static_cast<double>(tensor.numel());
    if (is_small(tensor)) {
      small_numel += numel;
      continue;
    }
    elements += numel;
    rows += static_cast<double>(tensor.shape[0]);
    columns += numel / static_cast<double>(tensor.shape[0]);
  }
  if (elements == 0) return {1, at_least_one(small_numel), 0};
  const double matrices = rows * columns / elements;
  return {at_least_one(std::round(elements / columns)), at_least_one(std::round(elements / rows)),
          small_numel / matrices};
}

LayoutSummary limited(const LayoutSummary& summary, std::size_t most) {
  const double share = static_cast<double>(most) / summary.numel();
  if (share >= 1) return summary;
  LayoutSummary out = summary;
  out.rows = at_least_one(std::sqrt(share) * static_cast<double>(summary.rows));
  out.columns = at_least_one(share * static_cast<double>(summary.matrix_numel()) /
                             static_cast<double>(out.rows));
  out.small_numel *=
      static_cast<double>(out.matrix_numel()) / static_cast<double>(summary.matrix_numel());
  return out;
}

Layout reduced(const LayoutSummary& summary, std::size_t numel) {
  constexpr std::size_t kLongestVector = 4096;  // longer ones might no longer be small
  const std::size_t matrices =
      at_least_one(std::round(static_cast<double>(numel) / summary.numel()));
  Layout out;
  for (std::size_t i = 0; i < matrices; ++i) append(out, {summary.rows, summary.columns});
  auto small_numel = static_cast<std::size_t>(static_cast<double>(matrices) * summary.small_numel);
  for (; small_numel > 0; small_numel -= std::min(small_numel, kLongestVector)) {
    append(out, {std::min(small_numel, kLongestVector)});
  }
  return out;
}

void fill_gradient(MutFloats out, std::uint64_t seed, int rep, int rank) {
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const auto block = block_of(seed, rep, rank, i / 4);
    for (std::size_t j = 0; j < std::min<std::size_t>(4, out.size() - i); ++j) {
      out[i + j] = gradient_of(block[j]);
    }
  }
}

float mean_gradient(std::size_t element, std::uint64_t seed, int rep, int workers) {
  float sum = 0;
  for (int rank = 0; rank < workers; ++rank) {
    sum += gradient_of(block_of(seed, rep, rank, element / 4)[element % 4]);
  }
  return sum / static_cast<float>(workers);
}

}  // namespace thinwire::plan
