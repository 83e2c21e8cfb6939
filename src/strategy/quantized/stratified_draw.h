// Draws the elements of a vector that are sent in a step: one of each run of 1 / density
// neighbours. All ranks draw the same ones, without messages or tables. The elements are scattered,
// because neighbours belong to the same unit of a network: moving all its weights at once, after
// many steps without a change, would overshoot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace thinwire::strategy {

class StratifiedDraw {
 public:
  // Draws `count` of numel elements in each step. 0 < count <= numel, or count is 0.
  StratifiedDraw(std::size_t numel, std::size_t count) : numel_(numel), count_(count) {}

  // Writes the indices of a step, in increasing order, to `places`, which must have `count`
  // elements. Every element of a run is drawn once before one is drawn again; the order in which
  // that happens starts at a random element.
  void at(std::uint64_t seed, std::uint64_t step, std::span<std::uint32_t> places) const;

  // Returns how many elements run number `run` has: each of them is drawn once in as many steps.
  std::size_t length(std::size_t run) const noexcept { return begin(run + 1) - begin(run); }

 private:
  // Returns the first element of run number `run`.
  std::size_t begin(std::size_t run) const noexcept;
  std::size_t numel_;
  std::size_t count_;
};

}  // namespace thinwire::strategy
