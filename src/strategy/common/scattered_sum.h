// Adds sparse vectors to a dense one and remembers which elements were changed.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "thinwire/types.h"

namespace thinwire::strategy {

class ScatteredSum {
 public:
  // Starts a sum in `sum`, whose elements must all be 0.
  void begin(MutFloats sum) {
    sum_ = sum;
    seen_.assign((sum.size() + 63) / 64, 0);
  }
  void add(const Sparse& entries) {
    for (std::size_t j = 0; j < entries.size(); ++j) {
      const std::uint32_t index = entries.indices[j];
      seen_[index / 64] |= std::uint64_t{1} << index % 64;
      sum_[index] += entries.values[j];
    }
  }
  // Calls visit(index, float& sum) for every element that was changed, in increasing order.
  template <class Visit>
  void finish(Visit visit) {
    for (std::size_t word = 0; word < seen_.size(); ++word) {
      for (std::uint64_t bits = seen_[word]; bits != 0; bits &= bits - 1) {
        const std::size_t index = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
        visit(index, sum_[index]);
      }
    }
  }

 private:
  MutFloats sum_;
  std::vector<std::uint64_t> seen_;  // a bit per element
};

}  // namespace thinwire::strategy
