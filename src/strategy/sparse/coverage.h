// Counts how much of what the workers selected was applied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

class Coverage {
 public:
  // One step of this worker. If it was dense, every element was selected, applied and changed.
  struct Step {
    std::size_t numel = 0;
    std::size_t selected = 0;   // elements that the density asked for
    std::size_t picked = 0;     // elements that were not 0
    std::size_t delivered = 0;  // picks that were applied
    std::size_t changed = 0;    // coordinates that the exchange changed, for all workers
    bool dense = false;
  };
  void count(const Step& step);

  // What the report needs to know about the run.
  struct Run {
    std::size_t numel = 0;
    double density = 0;             // in force
    std::uint64_t steps_left = 0;   // 0 also if the length of the run is not known
    bool length_known = false;
    int workers = 1;
    bool contributes = true;  // this rank has a gradient of its own
  };
  // Appends the metrics density, density_mean, coverage, coverage_predicted and workers_per_change.
  void report(const Run& run, std::vector<Metric>& out) const;

  // Returns how many workers contributed to a change, on average, as far as one of them can know; 0
  // before the first sparse step.
  double workers_per_change(int workers) const;

  void save(base::ByteWriter& out) const;
  // Throws WireError if the state is damaged.
  void load(base::ByteReader& in);

 private:
  double steps_ = 0, selected_ = 0, delivered_ = 0;
  // Sparse steps alone:
  double sparse_picked_ = 0, sparse_delivered_ = 0, changed_ = 0;
};

}  // namespace thinwire::strategy
