// Counts which tensors the selected coordinates belong to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/strategy.h"

namespace thinwire::strategy {

class SelectionTally {
 public:
  void begin(const Layout& layout);
  void count(std::span<const std::uint32_t> indices);  // of one step, strictly increasing
  // Per tensor, the share of its coordinates that was selected in a step.
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
