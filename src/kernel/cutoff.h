// Finds the magnitude at which to cut a vector so that exactly its k largest entries remain.
#pragma once

#include <array>
#include <cstdint>

#include "thinwire/types.h"

namespace thinwire::kernel {

// The k largest entries are those with a magnitude above `magnitude` and the first `ties` entries
// with exactly this magnitude.
struct Cutoff {
  std::uint32_t magnitude = 0;
  std::size_t ties = 0;
};

// Finds a Cutoff by radix selection, in three rounds of 11, 10 and 10 bits, most significant first.
// In every round the caller passes all values to count(), in pieces of any size, and then calls
// close_round(). The time does not depend on the data; the only memory is the counters.
class CutoffSearch {
 public:
  static constexpr int kRounds = 3;

  // Requires 1 <= k <= the number of values.
  explicit CutoffSearch(std::size_t k) : remaining_(k) {}

  void count(Floats values) noexcept;
  void close_round() noexcept;
  Cutoff cutoff() const noexcept { return {low(), remaining_}; }  // after three rounds

  // Only magnitudes in [low, high] still matter; others may be left out of this round.
  std::uint32_t low() const noexcept { return prefix_ << shift_above(); }
  std::uint32_t high() const noexcept { return low() + ((1u << shift_above()) - 1); }

 private:
  static constexpr std::array<int, kRounds + 1> kShift = {31, 20, 10, 0};
  static constexpr std::size_t kCounters = 1u << 11;
  // Neighbouring values use different counters: with one counter, equal neighbours would wait for
  // each other's store.
  static constexpr std::size_t kWays = 4;

  int shift_above() const noexcept { return kShift[static_cast<std::size_t>(round_)]; }
  int shift() const noexcept { return kShift[static_cast<std::size_t>(round_) + 1]; }

  int round_ = 0;
  std::uint32_t prefix_ = 0;  // the bits that earlier rounds have found
  std::size_t remaining_;     // how many of the k largest are not above the prefix
  std::array<std::array<std::uint32_t, kCounters>, kWays> counters_{};
};

// Returns the cutoff of the k largest values. Requires 1 <= k <= values.size().
Cutoff find_cutoff(Floats values, std::size_t k) noexcept;

}  // namespace thinwire::kernel
