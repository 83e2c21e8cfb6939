// Which elements of a vector are sent in a step, drawn alike by all ranks without a word or a
// table: one of each run of 1 / density neighbours. Scattered, since neighbours belong to the same
// unit of a network, and moving all its weights at once after a long wait would overshoot.
#pragma once

#include <cstdint>
#include <span>

namespace thinwire::strategy {

class StratifiedDraw {
 public:
  // Draws `count` of numel elements in each step: 0 < count <= numel.
  StratifiedDraw(std::size_t numel, std::size_t count) : numel_(numel), count_(count) {}

  // Their places, rising; there is room for `count`. Every element of a run comes once before any
  // comes again; where a run begins is drawn anew then.
  void at(std::uint64_t seed, std::uint64_t step, std::span<std::uint32_t> places) const;
  // How many elements run number i has: one of them is sent.
  std::size_t run_length(std::size_t i) const noexcept { return begin(i + 1) - begin(i); }

 private:
  std::size_t begin(std::size_t run) const noexcept;

  std::size_t numel_;
  std::size_t count_;
};

}  // namespace thinwire::strategy
