// Periods in which a strategy stops compressing, because it diverged.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"

namespace thinwire::strategy {

// A run whose compression is unstable at its learning rate is so again after a single dense step.
// So each period is twice as long as the one before: the model recovers, and in the end most steps
// are dense if nothing else helps.
class DensePeriods {
 public:
  // Starts a period with the step after `step`. Returns its number of steps.
  std::uint64_t start_after(std::uint64_t step) noexcept {
    const std::uint64_t length = length_;
    length_ = std::min(2 * length_, kLongest);
    end_ = step + 1 + length;
    return length;
  }
  bool contains(std::uint64_t step) const noexcept { return step < end_; }
  // Returns the first step after the last period.
  std::uint64_t end() const noexcept { return end_; }

  // The state as part of a checkpoint. load throws WireError if the bytes end too early.
  void save(base::ByteWriter& out) const {
    out.put(length_);
    out.put(end_);
  }
  void load(base::ByteReader& in) {
    length_ = std::clamp(in.get<std::uint64_t>(), kShortest, kLongest);
    end_ = in.get<std::uint64_t>();
  }

 private:
  static constexpr std::uint64_t kShortest = 8, kLongest = std::uint64_t{1} << 20;  // steps

  std::uint64_t length_ = kShortest;  // of the next one
  std::uint64_t end_ = 0;
};

}  // namespace thinwire::strategy
