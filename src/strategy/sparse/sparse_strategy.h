// The common part of topk, gtopk and ps: every worker adds its gradient to its residual, selects
// the largest entries of that, and an exchange makes one sparse mean of what all workers selected
// (error feedback; Lin et al. 2018, Shi et al. 2019). The three strategies differ in the exchange.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/spec.h"
#include "kernel/topk.h"
#include "message/sparse_message.h"
#include "strategy/common/density_control.h"
#include "strategy/common/divergence_guard.h"
#include "strategy/common/small_tensors.h"
#include "strategy/sparse/coverage.h"
#include "strategy/sparse/selection_tally.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

class SparseStrategy : public GradientStrategy {
 public:
  void begin(const StrategyContext& context) override;
  Update exchange(const GradientStep& context) final;
  void return_update(const GradientStep& context) final;
  Selection selection() const noexcept final { return selection_; }
  SgdConfig optimizer_share(const SgdConfig& asked) const final;
  std::vector<Metric> metrics() const override;
  void save(Payload& out) const final;
  void load(Bytes in) final;

 protected:
  struct Choices {
    double density = 0.01;  // of density=auto if the length of the run is not known
    bool small = true;      // whether there is a key `small`
    bool select = true;     // whether there is a key `select`
    bool int5 = false;      // whether picks stay together, so that they may be coded in blocks
  };
  // Reads the keys density, warmup, values, momentum, and small and select if the choices have
  // them.
  SparseStrategy(base::Spec& spec, const Choices& choices);
  explicit SparseStrategy(base::Spec& spec) : SparseStrategy(spec, Choices()) {}

  // Accumulates and moves k entries from the residual to `picks`. By default these are the largest.
  virtual void pick(const GradientStep& context, const kernel::Accumulation& accumulation,
                    std::size_t k, Sparse& picks);

  // Writes the mean of the picks of all workers, or of those that they agree on, to context.grads,
  // which is all 0. Returns false, on all ranks alike, if a value of the mean is not finite. It may
  // throw half-way, and must not change the picks, the residual and the velocity: see
  // give_picks_back().
  virtual bool exchange_picks(const GradientStep& context, std::size_t k) = 0;
  // The indices at which the last exchange left values that are not 0, in any order.
  virtual std::span<const std::uint32_t> changed() const = 0;
  // Called after the exchange; must not use the transport. Adds the picks that were not applied
  // anywhere back to residual(), and calls sent() for those that were applied.
  virtual void return_unapplied() = 0;
  // Called after the exchange, instead of return_unapplied(), if the step is not made. Undoes what
  // the exchange has changed besides context.grads.
  virtual void withdraw() noexcept {}
  // Returns how many bytes the busiest rank sends in an exchange, on average.
  virtual double busiest_bytes(std::size_t numel, std::size_t k, int ranks) const = 0;
  // Returns how many times k elements a step changes, at most: the share of the picks that are
  // applied is this over the number of workers, times that of workers per change.
  virtual double applied(int workers) const = 0;
  // Returns a remark about the choice of this strategy, or nothing, given how many workers
  // contribute to a change on average. It is asked for once, after 2 % of the run.
  virtual std::string remark(double workers_per_change, int workers) const;
  // Returns what to say once if an automatic density makes steps dense; empty: nothing.
  virtual std::string dense_remark() const;
  // The state of the exchange as part of a checkpoint. load_exchange throws WireError on foreign
  // bytes.
  virtual void save_exchange(base::ByteWriter& out) const;
  virtual void load_exchange(base::ByteReader& in);

  // Returns how many workers must contribute to a change on average so that merges, which send k
  // coordinates log2 P times, deliver as much per byte as an all-gather, which sends them P - 1
  // times and drops none.
  static double merging_pays_from(int workers);

  message::ValueCoding value_coding() const noexcept { return value_coding_; }
  double density() const noexcept { return density_.target(); }
  // Returns what this worker selected in this step, with values as on the wire.
  const Sparse& picks() const noexcept { return picks_; }
  // Returns the length of a message with k of numel entries, on average.
  double message_bytes(std::size_t numel, std::size_t k) const;
  // Returns whether a step with k of numel entries is exchanged dense instead.
  bool is_dense_shorter(const Transport& wire, std::size_t numel, std::size_t k) const;
  // Returns what is done against divergence in this step.
  const Safeguards& safeguards() const noexcept { return guard_.safeguards(); }
  MutFloats residual() noexcept { return residual_; }
  // Must be called for a pick that was sent for good: its coordinate loses its momentum (factor
  // masking). `applied` says whether it is part of the update.
  void sent(std::uint32_t index, bool applied = true) noexcept {
    if (masks_now_ && !velocity_.empty()) velocity_[index] = 0;
    if (applied) ++delivered_;
  }
  void count_selected(std::span<const std::uint32_t> indices) { tally_.count(indices); }
  // Counts the bytes of a message and the fewest that any code would need.
  void count_message(std::size_t numel, std::size_t entries, std::size_t bytes);
  // Appends a message with these entries to `out`, and counts it.
  void encode(const Sparse& entries, const message::SparseAddress& address, Payload& out);

 private:
  // What a step changes and save() writes besides residual, velocity and exchange.
  struct Record {
    DensityControl::State density;
    DivergenceGuard guard;
    Coverage coverage;
  };

  void restore(const Record& record);
  void warn_if_covers_little(const StrategyContext& context);
  void decide_density(const GradientStep& context);
  void report_density(const StrategyContext& context);
  void count_step(const GradientStep& context, bool dense, std::size_t k);
  Update exchange_guarded(const GradientStep& context);
  bool agree_finite(const GradientStep& context);
  std::size_t count_entries(const GradientStep& context) const;
  bool dense_mean(const GradientStep& context) const;
  void select(const GradientStep& context, std::size_t k);
  void select_all(const GradientStep& context);
  bool exchange_all(const GradientStep& context, bool dense, std::size_t k);
  void give_picks_back(MutFloats grads);
  void watch_residual(const GradientStep& context, double gradient_norm);
  SgdConfig own_part(const SgdConfig& asked) const;

  DensityControl density_;
  message::ValueCoding value_coding_;
  bool corrected_;                                       // momentum is applied before the selection
  enum class Masking { never, early, always } masking_;  // coordinates lose momentum when sent
  bool masks_now_ = false;                               // in this step
  bool small_dense_;                                     // small tensors are always sent
  Selection selection_ = Selection::bucket;
  kernel::TopK top_k_;
  Sparse picks_;
  std::vector<float> residual_, velocity_, errors_;
  SmallTensors small_;
  DivergenceGuard guard_;
  SelectionTally tally_;
  Coverage coverage_;
  Coverage::Run run_;                                // as the metrics report it
  std::uint64_t steps_ = 0;                          // of the run; 0: not known
  std::size_t delivered_ = 0;                        // picks of this step that were applied
  Record before_;                                    // the last step
  bool said_coverage_ = false, said_dense_ = false;  // these warnings come once in a run
  struct {
    double coordinates = 0, bytes = 0, entropy_bytes = 0;
  } coded_;
};

}  // namespace thinwire::strategy
