// For tests: a rank that trains by a sparse strategy, and what it has left of a step that failed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "testing/strategy_driver.h"
#include "thinwire/strategy.h"

namespace thinwire {

// What a sparse strategy keeps between steps, read from its checkpoint.
struct SparseState {
  std::vector<float> residual, velocity, small_velocity;
  Payload of_exchange;  // the rest: density, coverage, guard; of ps, memory and server's residual
  bool operator==(const SparseState&) const = default;
};
SparseState read_sparse_state(Bytes checkpoint);

// A model of 200 parameters, 20 of them a bias, with momentum and weight decay. Gradients have all
// their bits, and magnitudes over many powers of two.
class SurvivorRank {
 public:
  // `steps` is the length of the run; 0: not known.
  SurvivorRank(Transport& wire, const std::string& spec, std::uint64_t steps = 0);
  SurvivorRank(const SurvivorRank&) = delete;
  SurvivorRank& operator=(const SurvivorRank&) = delete;

  // One step; throws what the strategy throws.
  void step();
  // After step() threw: empty if a checkpoint made now, and the gradients, hold all that they held
  // before; else what is missing. Either the step has left no trace, or its gradient is in the
  // residual, bit for bit, as if nothing had been selected.
  std::string lost() const;

  Payload state() const;
  // Sends and receives so far.
  std::uint64_t operations() const;

 private:
  SparseState accumulated() const;

  Transport& wire_;
  std::string spec_;
  Layout layout_;
  std::vector<float> params_, grads_, gradient_;  // gradient_: what grads_ was before the exchange
  Payload before_;                                // the state then
  RunOptions run_;
  test::StrategyDriver driver_;
};

}  // namespace thinwire
