// Which entries a worker sends, if the union of what all workers send is to stay small: by their
// magnitude, and by what came back from the server before.
#pragma once

#include "kernel/topk.h"
#include "strategy/server/union_memory.h"

namespace thinwire::strategy {

// How strongly the memory counts.
struct Preference {
  float lambda = 1;
  double quota = 0.25;  // of the picks of `mask`, the share that may be anything else
};

// The scores are those of SelectionRule; the entries with the k largest are exactly found, of equal
// ones those of lower index.
class UnionSelection {
 public:
  // Accumulates, then moves up to k entries of the residual to `out`.
  void select(const kernel::Accumulation& accumulation, std::size_t k, const UnionMemory& memory,
              const Preference& preference, std::uint64_t step, Sparse& out);
  void select_largest(const kernel::Accumulation& accumulation, std::size_t k, Sparse& out) {
    top_k_.select(accumulation, k, out);
  }
  // Where the k largest entries of the residual are. `zeros` is all 0, of the same length.
  void propose(MutFloats zeros, MutFloats residual, std::size_t k,
               std::vector<std::uint32_t>& indices);

 private:
  void select_boosted(const kernel::Accumulation& rest, std::size_t k, const UnionMemory& memory,
                      float factor, Sparse& out);
  template <class Weight>
  void select_weighted(const kernel::Accumulation& rest, std::size_t k, Weight weight, Sparse& out);
  void select_inside_and_out(const kernel::Accumulation& rest, std::size_t k,
                             const UnionMemory& memory, double quota, Sparse& out);
  void select_preferred(MutFloats residual, std::size_t k, const UnionMemory& memory, Sparse& out);
  void put_dropped_back(MutFloats residual) const;
  void take_preferred(MutFloats residual, const UnionMemory& memory, Sparse& out);

  kernel::TopK top_k_;
  Sparse inside_, outside_, dropped_;
  std::vector<float> saved_, scores_;
};

}  // namespace thinwire::strategy
