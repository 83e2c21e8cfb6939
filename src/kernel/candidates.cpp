#include "kernel/candidates.h"

#include <algorithm>

#include "kernel/magnitude.h"

namespace thinwire::kernel {

void keep_largest(Found& found, Cutoff& cutoff) noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found.size; ++i) {  // without branches: they would not be predictable
    const std::uint32_t index = found.indices[i];
    const float value = found.values[i];
    const std::uint32_t bits = magnitude(value);
    const bool tie = bits == cutoff.magnitude && cutoff.ties > 0;
    cutoff.ties -= tie;
    found.indices[kept] = index;
    found.values[kept] = value;
    kept += bits > cutoff.magnitude || tie;
  }
  found.size = kept;
}

void Candidates::reserve(std::size_t n) {
  const std::size_t needed = n / 8 + 2 * kBlock;
  if (needed <= capacity_) return;
  indices_ = std::make_unique_for_overwrite<std::uint32_t[]>(needed + kOvershoot);
  values_ = std::make_unique_for_overwrite<float[]>(needed + kOvershoot);
  capacity_ = needed;
}

void Candidates::start(std::size_t k, std::uint32_t threshold) noexcept {
  // The list is cut at eight times k entries, so that a cut costs little for each entry that it
  // drops.
  limit_ = std::min(std::max(8 * k, kBlock), capacity_ - kBlock);
  found_ = scratch();
  k_ = k;
  dropped_ = 0;
  threshold_ = threshold;
}

void Candidates::make_room() noexcept {
  if (found_.size <= limit_) return;
  const std::size_t before = found_.size;
  Cutoff cutoff = find_cutoff({found_.values, found_.size}, k_);
  threshold_ = cutoff.magnitude + 1;  // of equal entries, the first are already in the list
  keep_largest(found_, cutoff);
  dropped_ += before - found_.size;
}

}  // namespace thinwire::kernel
