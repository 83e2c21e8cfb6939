#include "cli/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "thinwire/random.h"

namespace thinwire::cli {
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
  return philox(seed, step, block, Purpose::bench);
}

}  // namespace

Layout layered(std::size_t numel, std::size_t side) {
  Layout out;
  const auto append = [&](std::vector<std::size_t> shape) {
    TensorSlot tensor{fmt::format("layer{}", out.tensors.size()), out.numel, std::move(shape)};
    if (tensor.numel() == 0) return;
    out.numel += tensor.numel();
    out.tensors.push_back(std::move(tensor));
  };
  while (numel - out.numel >= side * side) append({side, side});
  append({(numel - out.numel) / side, side});
  append({numel - out.numel});
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

}  // namespace thinwire::cli
