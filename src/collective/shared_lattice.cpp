#include "collective/shared_lattice.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "thinwire/collective.h"

namespace thinwire::collective {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000;

}  // namespace

void SharedLattice::reserve(std::size_t most_elements) {
  const std::size_t most_tiles = tile_count(most_elements);
  norms_.reserve(most_tiles + 1);
  fits_.reserve(fits_at(most_tiles));
}

bool SharedLattice::agree_on_norms(Transport& wire, PhaseTiming& timing, Floats values,
                                   std::uint32_t outside) {
  timing.compute([&] {
    norms_.clear();
    const std::size_t whole = std::max<std::size_t>(values.size(), 1);
    const std::size_t bucket =
        quantization_.bucket_tiles == 0 ? whole : quantization_.bucket_tiles * kernel::kTile;
    for (std::size_t begin = 0; begin < values.size(); begin += bucket) {
      const std::size_t size = std::min(bucket, values.size() - begin);
      norms_.push_back(kernel::highest_magnitude(values.subspan(begin, size)));
    }
    norms_.push_back(outside);
  });
  allreduce_max(wire, std::span(norms_));
  return std::ranges::all_of(norms_, [](std::uint32_t norm) { return norm < kInfinity; });
}

void SharedLattice::agree_on_scales(Transport& wire, PhaseTiming& timing, Floats values) {
  timing.compute([&] {
    const std::size_t tiles = tile_count(values.size());
    fits_.resize(fits_at(tiles));
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      kernel::find_fits(tile_of(values, tile), lattice(tile), fits_.data() + fits_at(tile));
    }
  });
  allreduce_and(wire, std::span(fits_));
}

bool SharedLattice::is_zero() const {
  const auto buckets = std::span(norms_).first(norms_.size() - 1);
  return std::ranges::all_of(buckets, [](std::uint32_t norm) { return norm == 0; });
}

float SharedLattice::norm(std::size_t tile) const {
  const std::size_t bucket =
      quantization_.bucket_tiles == 0 ? 0 : tile / quantization_.bucket_tiles;
  return std::bit_cast<float>(norms_[bucket]);
}

// If a norm is so small that its inverse is infinite, the bucket is treated as 0, as with a norm of
// 0.
kernel::Lattice SharedLattice::lattice(std::size_t tile) const {
  kernel::Lattice out;
  out.levels = quantization_.levels(0);
  out.scales = quantization_.bits.size();
  for (std::size_t k = 0; k < out.scales; ++k) {
    out.inverse[k] = static_cast<float>(quantization_.levels(k)) / norm(tile);
  }
  if (!std::isfinite(out.inverse[out.scales - 1])) out.inverse.fill(0);
  return out;
}

std::array<float, kernel::kMostScales> SharedLattice::steps(std::size_t tile, double ranks) const {
  std::array<float, kernel::kMostScales> out{};
  if (lattice(tile).inverse[0] == 0) return out;
  for (std::size_t k = 0; k < quantization_.bits.size(); ++k) {
    const double codes = quantization_.levels(k) * ranks;
    out[k] = static_cast<float>(static_cast<double>(norm(tile)) / codes);
    // If the step was rounded up, the largest code times the step could be infinite.
    if (!std::isfinite(out[k] * static_cast<float>(codes))) out[k] = std::nextafter(out[k], 0.0f);
  }
  return out;
}

std::uint64_t SharedLattice::count_fine(std::size_t elements) const {
  const std::size_t tiles = tile_count(elements);
  std::uint64_t fine = 0;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    for (std::size_t word = 0; word < kernel::kFitWords; ++word) {
      fine += static_cast<std::uint64_t>(std::popcount(fits(tile)[word]));
    }
  }
  return fine - (tiles * kernel::kTile - elements);  // all bits beyond the end are set
}

}  // namespace thinwire::collective
