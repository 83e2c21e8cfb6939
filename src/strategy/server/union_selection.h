// Selects the entries that a worker pushes, by their magnitude and by what came back from the
// servers before, so that the union over all workers stays small.
#pragma once

#include "kernel/topk.h"
#include "strategy/server/union_memory.h"

namespace thinwire::strategy {

// How strongly the selection prefers what came back before.
struct Preference {
  float lambda = 1;
  double quota = 0.25;  // with the rule `mask`: the share of the picks that may be elsewhere
};

// Returns the preference at which a run with this density is stable: it is weaker below 1 %.
//
// A preference makes workers push their values of a coordinate in the same step, so that other
// coordinates wait longer. Gradients that waited belong to old models, and the lower the density,
// the older they are. At density 0.001, full preference makes updates so long that they diverge at
// learning rates at which the selection by magnitude is stable (docs/server.md).
Preference bounded(const Preference& preference, double density);

// Finds exactly the k entries with the largest scores, which SelectionRule defines; of equal scores
// the lower index wins. It keeps its scratch memory; one thread at a time may use it.
class UnionSelection {
 public:
  // Accumulates, then moves up to k entries of the residual to `out`.
  void select(const kernel::Accumulation& accumulation, std::size_t k, const UnionMemory& memory,
              const Preference& preference, Sparse& out);
  // Does the same by magnitude alone.
  void select_largest(const kernel::Accumulation& accumulation, std::size_t k, Sparse& out) {
    top_k_.select(accumulation, k, out);
  }

 private:
  void select_boosted(const kernel::Accumulation& rest, std::size_t k, const UnionMemory& memory,
                      float factor, Sparse& out);
  void select_inside_and_out(const kernel::Accumulation& rest, std::size_t k,
                             const UnionMemory& memory, double quota, Sparse& out);
  void put_dropped_back(MutFloats residual) const;
  void take_preferred(MutFloats residual, const UnionMemory& memory, Sparse& out);

  kernel::TopK top_k_;
  Sparse inside_, outside_, dropped_;
  std::vector<float> saved_;
};

}  // namespace thinwire::strategy
