// The entries that may be among the k largest, while a vector streams by.
#pragma once

#include <memory>

#include "kernel/cutoff.h"
#include "kernel/topk_passes.h"

namespace thinwire::kernel {

// Moves those entries to the front that are within the cutoff; its ties are used up on the way, so
// that the next piece of the same vector can follow.
void keep_largest(Found& found, Cutoff& cutoff) noexcept;

// A list of bounded length. Once it is too long it is cut to its k largest entries, and from then
// on only larger ones are let in: those that are dropped are smaller than k others, or equal and
// later.
class Candidates {
 public:
  // Elements that may be added between two calls of make_room.
  static constexpr std::size_t kBlock = 4096;
  // Above this share of n the list would be as long as the vector.
  static constexpr double kMostDensity = 0.03;

  // Memory for selections from up to n elements: n bytes, allocated once for the largest n.
  void reserve(std::size_t n);

  // Begins with an empty list: the k largest of those of at least the magnitude `threshold`.
  // k <= kMostDensity n.
  void start(std::size_t k, std::uint32_t threshold) noexcept;
  void make_room() noexcept;
  std::uint32_t threshold() const noexcept { return threshold_; }

  Found& found() noexcept { return found_; }
  std::size_t size() const noexcept { return found_.size; }
  std::size_t passed() const noexcept { return found_.size + dropped_; }

  // The list's memory, for kBlock entries, or for n / 32 values, while no selection is under way.
  Found scratch() noexcept { return {indices_.get(), values_.get(), 0}; }

 private:
  std::unique_ptr<std::uint32_t[]> indices_;
  std::unique_ptr<float[]> values_;
  std::size_t capacity_ = 0;  // without the overshoot
  Found found_;
  std::size_t k_ = 0;
  std::size_t limit_ = 0;
  std::size_t dropped_ = 0;
  std::uint32_t threshold_ = 0;
};

}  // namespace thinwire::kernel
