#include "strategy/quantized/stratified_draw.h"

#include <algorithm>
#include <array>

#include "base/random.h"

namespace thinwire::strategy {

// The lengths of two runs differ by one element at most.
std::size_t StratifiedDraw::begin(std::size_t run) const noexcept {
  const std::size_t each = numel_ / count_, longer = numel_ % count_;
  return run * each + std::min(run, longer);
}

void StratifiedDraw::at(std::uint64_t seed, std::uint64_t step,
                        std::span<std::uint32_t> places) const {
  for (std::size_t i = 0; i < count_; i += 4) {
    std::array<std::uint32_t, 4> random{};
    for (std::size_t j = i; j < std::min(i + 4, count_); ++j) {
      const std::size_t size = length(j);
      const std::uint64_t round = step / size;
      if (j == i || length(j - 1) != size)
        random = base::philox(seed, round, i / 4, base::Purpose::places);
      places[j] = static_cast<std::uint32_t>(begin(j) + (random[j % 4] + step) % size);
    }
  }
}

}  // namespace thinwire::strategy
