// PowerSGD (Vogels et al. 2019): the gradient of a matrix M is sent as P Q^T of low rank, found by
// one step of power iteration that starts from the result of the last one. The difference stays in
// the worker's error memory (error feedback). Both factors are averaged by all-reduce, so that the
// bytes sent do not grow with the number of workers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/spec.h"
#include "strategy/lowrank/divergence_state.h"
#include "strategy/lowrank/low_rank.h"
#include "strategy/lowrank/rank_schedule.h"
#include "thinwire/strategy.h"

namespace thinwire::strategy {

class PowerSgd final : public GradientStrategy {
 public:
  explicit PowerSgd(base::Spec& spec)
      : rank_(RankSchedule::read(spec)), start_(spec.integer_or_auto("start", 0, 1'000'000'000)) {}

  void begin(const StrategyContext& context) override;
  Update exchange(const GradientStep& step) override;
  void return_update(const GradientStep& step) override;
  CostProfile cost_profile() const override { return {.by_matrix_shape = true}; }
  std::vector<Metric> metrics() const override;
  void save(Payload& out) const override;
  void load(Bytes in) override;

 private:
  // Fixes the rank at the start of the run, if it is automatic, and how far it may rise.
  void choose_ranks(const StrategyContext& context);
  void use_layout(const StrategyContext& context);
  const LowRankLayout& layout() const noexcept { return layouts_[level_]; }
  bool is_compressed(std::uint64_t step) const noexcept {
    return step >= dense_steps_ && !divergence_.dense_periods.contains(step) && gains_ &&
           !layout().matrices.empty();
  }
  // Returns the bytes that `rank` sends in one exchange.
  static double bytes_of(const LowRankLayout& layout, const Transport& wire, int rank);
  void react(const GradientStep& step, const ErrorMemoryNorms& norms);
  void use_raised_rank(const GradientStep& step);

  Update exchange_compressed(const GradientStep& step);
  bool exchange_factors(const GradientStep& step);
  bool exchange_dense(const GradientStep& step);
  // Returns the L2 norm of the update that exchange_factors() made.
  double update_norm() const;
  void project(MutFloats grads);
  void project_back(const GradientStep& step);
  void reconstruct(const GradientStep& step);

  static constexpr std::size_t kNormsNumel = 2;  // norm of the error memory, and its ratio

  static MutFloats gradient_of(const LowRankTensor& matrix, MutFloats grads) {
    return grads.subspan(matrix.gradient, matrix.shape.numel());
  }
  MutFloats error_of(const LowRankTensor& matrix) {
    return MutFloats(errors_).subspan(matrix.error, matrix.shape.numel());
  }
  MutFloats p_of(const LowRankTensor& matrix) {
    return MutFloats(first_).subspan(matrix.p, matrix.shape.p_numel());
  }
  static MutFloats q_of(const LowRankTensor& matrix, MutFloats all) {
    return all.subspan(matrix.q, matrix.shape.q_numel());
  }

  RankSchedule rank_;
  std::optional<std::int64_t> start_;  // the key; none: automatic
  std::uint64_t dense_steps_ = 0;      // at the start of the run
  bool gains_ = true;                  // false: compression would not gain enough
  DivergenceState divergence_;
  std::vector<LowRankLayout> layouts_;  // one for each rank that the run may use, rising
  std::size_t level_ = 0;               // the layout in use
  std::vector<float> errors_;           // g - P Q^T of all steps so far, for the matrices alone
  std::vector<float> q_;      // where the next power iteration starts; the same on every rank
  std::vector<float> first_;  // what the first all-reduce carries: P, then the exact tensors, and
                              // kNormsNumel numbers on which ranks have to agree
  std::vector<float> own_;    // Q = M^T P of this worker
  std::vector<float> mean_;   // and of all workers
  std::vector<double> scratch_;  // for the orthonormalization
  struct {
    double dense_bytes = 0, bytes = 0;  // of one exchange
    double vectors = 0, replaced = 0;   // of P, and how many of them had to be replaced
  } counts_;
};

}  // namespace thinwire::strategy
