// What topk, gtopk and ps have in common: every worker adds its gradient to what it still holds
// back, selects the largest entries of that, and an exchange, which is all they differ in, makes
// one sparse mean of what all workers selected (error feedback; Lin et al. 2018, Shi et al. 2019).
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/spec.h"
#include "kernel/topk.h"
#include "message/sparse_message.h"
#include "strategy/common/density.h"
#include "strategy/common/residual_guard.h"
#include "strategy/common/small_tensors.h"
#include "strategy/sparse/selection_tally.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

class SparseStrategy : public GradientStrategy {
 public:
  void begin(const StrategyContext& context) override;
  Update exchange(const GradientStep& context) final;
  SgdConfig optimizer_share(const SgdConfig& asked) const final;
  std::vector<Metric> metrics() const override;
  void save(Payload& out) const final;
  void load(Bytes in) final;

 protected:
  struct Choices {
    double density = 0.001;  // unless told
    // Whether there are the keys `index` (else the exchange has a format of its own) and `small`.
    bool index = true, small = true;
  };
  // Keys: density, warmup, values, momentum, and those of the choices.
  SparseStrategy(base::Spec& spec, const Choices& choices);
  explicit SparseStrategy(base::Spec& spec) : SparseStrategy(spec, Choices()) {}

  // Accumulates and moves k entries from the residual to `picks`: the largest, unless told.
  virtual void pick(const GradientStep& context, const kernel::Accumulation& accumulation,
                    std::size_t k, Sparse& picks);

  // Makes the mean of the picks of all workers, or of what they agree on, in model.grads, which is
  // all 0. False, on all ranks alike, if a value of the mean is not finite. It may throw half-way,
  // and must leave the picks, the residual and the velocity alone: see give_back().
  virtual bool exchange_picks(const GradientStep& context, std::size_t k) = 0;
  // The indices at which the last exchange left values that are not 0, in any order.
  virtual std::span<const std::uint32_t> changed() const = 0;
  // After the exchange: what of its own picks was not applied anywhere goes back to residual();
  // what was, is given to sent(). No wire any more.
  virtual void return_unapplied() = 0;
  // What the busiest rank sends in an exchange, on average.
  virtual double busiest_bytes(std::size_t numel, std::size_t k, int ranks) const = 0;
  // How many times k elements a step changes, at most.
  virtual double applied(int workers) const = 0;
  // What the exchange itself has in checkpoints.
  virtual void save_exchange(base::ByteWriter& out) const;
  virtual void load_exchange(base::ByteReader& in);

  const message::SparseFormat& format() const noexcept { return format_; }
  double density() const noexcept { return density_.target(); }
  const Sparse& picks() const noexcept { return picks_; }  // values as on the wire
  // How long a message with k of numel entries is, on average.
  double message_bytes(std::size_t numel, std::size_t k) const;
  // Whether a step with k of numel entries is exchanged dense instead.
  bool is_dense_shorter(const Transport& wire, std::size_t numel, std::size_t k) const;
  MutFloats residual() noexcept { return residual_; }
  // A coordinate that was sent loses its momentum (factor masking).
  void sent(std::uint32_t index) noexcept {
    if (!velocity_.empty()) velocity_[index] = 0;
  }
  void count_selected(std::span<const std::uint32_t> indices) { tally_.count(indices); }
  // Counts the bytes of a message beside the fewest that any code needs.
  void count_message(std::size_t numel, std::size_t entries, std::size_t bytes);
  // Appends the message of some entries, and counts it.
  void encode(const Sparse& entries, const message::SparseAddress& address, Payload& out);

 private:
  void warn_if_few_changes(const StrategyContext& context) const;
  bool agree_finite(const GradientStep& context);
  bool dense_mean(const GradientStep& context) const;
  void select(const GradientStep& context, std::size_t k);
  void select_all(const GradientStep& context);
  bool exchange_all(const GradientStep& context, bool dense, std::size_t k);
  void give_back(MutFloats grads);
  void watch_residual(const GradientStep& context, double gradient_norm);
  SgdConfig own_part(const SgdConfig& asked) const;

  DensitySchedule density_;
  message::SparseFormat format_;
  bool corrected_;    // momentum is applied before the selection
  bool small_dense_;  // small tensors are always sent
  kernel::TopK top_k_;
  Sparse picks_;
  std::vector<float> residual_, velocity_, errors_;
  SmallTensors small_;
  ResidualGuard guard_;
  SelectionTally tally_;
  struct {
    double coordinates = 0, bytes = 0, entropy_bytes = 0;
  } coded_;
};

}  // namespace thinwire::strategy
