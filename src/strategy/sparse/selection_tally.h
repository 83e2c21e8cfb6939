// Counts which tensors the selected coordinates belong to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/strategy.h"

namespace thinwire::strategy {

class SelectionTally {
 public:
  // Starts to count for the tensors of a layout.
  void begin(const Layout& layout);
  // Counts the coordinates that were selected in a step, which must increase strictly.
  void count(std::span<const std::uint32_t> indices);
  // Appends a metric per tensor: the share of its coordinates that was selected, per step.
  void report(std::vector<Metric>& out) const;

 private:
  struct Tensor {
    std::string name;
    std::size_t begin, end;
    std::uint64_t selected = 0;
  };
  std::vector<Tensor> tensors_;
  std::uint64_t steps_ = 0;
};

}  // namespace thinwire::strategy
