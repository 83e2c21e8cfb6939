// The median of the last few numbers.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "thinwire/error.h"

namespace thinwire::strategy {

template <std::size_t N>
class RunningMedian {
 public:
  void add(double value) noexcept {
    last_[next_] = value;
    next_ = (next_ + 1) % N;
    count_ = std::min(count_ + 1, N);
  }
  // Multiplies all numbers.
  void scale(double factor) noexcept {
    for (double& value : last_) value *= factor;
  }
  bool full() const noexcept { return count_ == N; }
  // Returns the upper one of two middle numbers, or 0 if there are none.
  double value() const noexcept {
    if (count_ == 0) return 0;
    std::array<double, N> sorted = last_;
    std::nth_element(sorted.begin(), sorted.begin() + count_ / 2, sorted.begin() + count_);
    return sorted[count_ / 2];
  }

  // The state as part of a checkpoint. load throws WireError on foreign bytes.
  void save(base::ByteWriter& out) const {
    out.put<std::uint64_t>(count_);
    out.put<std::uint64_t>(next_);
    for (const double value : last_) out.put(value);
  }
  void load(base::ByteReader& in) {
    const auto count = in.get<std::uint64_t>(), next = in.get<std::uint64_t>();
    if (count > N || next >= N || (count < N && next != count)) {
      throw WireError(
          fmt::format("running median: its state is damaged ({} of {} numbers, the next at {})",
                      count, N, next));
    }
    count_ = static_cast<std::size_t>(count);
    next_ = static_cast<std::size_t>(next);
    for (double& value : last_) {
      value = in.get<double>();
      if (!std::isfinite(value)) {
        throw WireError(
            fmt::format("running median: its state is damaged (a number is {})", value));
      }
    }
  }

 private:
  std::array<double, N> last_{};
  std::size_t count_ = 0;  // of the numbers in last_
  std::size_t next_ = 0;   // where the next one goes
};

}  // namespace thinwire::strategy
