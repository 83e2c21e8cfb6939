// Collects the entries that may be among the k largest, during a single pass over a vector.
#pragma once

#include <memory>

#include "kernel/cutoff.h"
#include "kernel/topk_passes.h"

namespace thinwire::kernel {

// Keeps the entries that are within the cutoff and drops the others. It decrements cutoff.ties for
// each tie that it keeps, so that the caller can continue with the next part of the same vector.
void keep_largest(Found& found, Cutoff& cutoff) noexcept;

// A list of bounded length. When it is too long, it is cut to its k largest entries, and from then
// on only larger entries are accepted. An entry that is dropped is smaller than k others, or equal
// to one of them and later.
class Candidates {
 public:
  // How many elements may be added between two calls of make_room().
  static constexpr std::size_t kBlock = 4096;
  // Above this share of n the list would be as long as the vector.
  static constexpr double kMostDensity = 0.03;

  // Allocates memory for selections from up to n elements: n bytes. A smaller n later allocates
  // nothing.
  void reserve(std::size_t n);

  // Starts a selection with an empty list: of the k largest entries that have at least the
  // magnitude `threshold`. Requires k <= kMostDensity n.
  void start(std::size_t k, std::uint32_t threshold) noexcept;
  void make_room() noexcept;
  std::uint32_t threshold() const noexcept { return threshold_; }

  Found& found() noexcept { return found_; }
  std::size_t size() const noexcept { return found_.size; }
  std::size_t passed() const noexcept { return found_.size + dropped_; }

  // Returns the memory of the list, which callers may use between selections: for kBlock entries,
  // or for n / 32 values.
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
