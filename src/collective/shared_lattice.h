// The lattice of one quantized all-reduce: all ranks agree on the norm of each bucket and, with
// several scales, on the scale of each element, before they round.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collective/phase_timing.h"
#include "collective/quantization.h"
#include "thinwire/transport.h"

namespace thinwire::collective {

class SharedLattice {
 public:
  explicit SharedLattice(Quantization quantization) : quantization_(std::move(quantization)) {}

  // Allocates memory for vectors of up to `most_elements` elements.
  void reserve(std::size_t most_elements);

  // Called by all ranks together: finds the largest magnitude of each bucket over all ranks.
  // `outside` is the largest bits of |x| (kernel::highest_magnitude) of numbers that are not among
  // the values. Returns false, on all ranks alike, if any of these numbers is not finite on any
  // rank.
  bool agree_on_norms(Transport& wire, PhaseTiming& timing, Floats values, std::uint32_t outside);
  // Called by all ranks together after agree_on_norms, if there are several scales: an element is
  // sent in a finer scale if it fits on every rank. This depends on the values before rounding: if
  // it depended on how they were rounded, the result would be biased.
  void agree_on_scales(Transport& wire, PhaseTiming& timing, Floats values);

  // Returns whether the values of all ranks are 0. Valid after agree_on_norms, as all below.
  bool is_zero() const;
  const Quantization& quantization() const noexcept { return quantization_; }
  bool has_scales() const noexcept { return quantization_.bits.size() > 1; }
  // Returns what kernel::quantize needs to round a tile.
  kernel::Lattice lattice(std::size_t tile) const;
  // Returns the steps of the lattice, divided by the number of ranks whose codes were added.
  std::array<float, kernel::kMostScales> steps(std::size_t tile, double ranks) const;
  // Returns the masks of the finer scales of a tile.
  const std::uint64_t* fits(std::size_t tile) const { return fits_.data() + fits_at(tile); }
  // Returns how many of the elements are sent in a finer scale than the first. Valid after
  // agree_on_scales.
  std::uint64_t count_fine(std::size_t elements) const;

 private:
  float norm(std::size_t tile) const;
  std::size_t fits_at(std::size_t tile) const noexcept {
    return tile * (quantization_.bits.size() - 1) * kernel::kFitWords;
  }

  Quantization quantization_;
  std::vector<std::uint32_t> norms_;  // the bits of the norm of each bucket, and those of `outside`
  std::vector<std::uint64_t> fits_;
};

}  // namespace thinwire::collective
