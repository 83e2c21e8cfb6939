// PowerSGD (Vogels et al. 2019): the gradient of a matrix M is sent as P Q^T of low rank, found by
// one step of power iteration that goes on from the last one. What it misses waits in the worker's
// error memory (error feedback). Both factors are averaged by all-reduce, so that the bytes sent do
// not grow with the number of workers.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/spec.h"
#include "kernel/orthonormal.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/state.h"
#include "strategy/lowrank/low_rank.h"
#include "strategy/lowrank/rank_schedule.h"
#include "thinwire/collective.h"
#include "thinwire/strategy.h"
#include "transport/payload_scale.h"

namespace thinwire::strategy {
namespace {

constexpr std::uint32_t kStateVersion = 2;
// Steps between looks at the error memory: a run that diverges does so within tens of steps.
constexpr std::uint64_t kLookEvery = 8;

class PowerSgd final : public GradientStrategy {
 public:
  explicit PowerSgd(base::Spec& spec)
      : rank_(RankSchedule::read(spec)), start_(number_or_auto(spec, "start", 0, 1'000'000'000)) {}

  void begin(const StrategyContext& context) override;
  Update exchange(const GradientStep& step) override;
  CostProfile cost_profile() const override { return {.by_matrix_shape = true}; }
  std::vector<Metric> metrics() const override;
  void save(Payload& out) const override;
  void load(Bytes in) override;

 private:
  // Fixes the rank at the start of the run, if it is automatic, and how far it may rise.
  void choose_ranks(const StrategyContext& context);
  void use_layout(const StrategyContext& context);
  const LowRankLayout& layout() const noexcept { return layouts_[level_]; }
  // Returns the bytes that `rank` sends in one exchange.
  static double bytes_of(const LowRankLayout& layout, const Transport& wire, int rank);
  void react(const GradientStep& step, const ErrorLook& look);
  void raise_rank(const GradientStep& step);

  bool exchange_factors(const GradientStep& step);
  void project(MutFloats grads);
  void project_back(const GradientStep& step);
  void reconstruct(const GradientStep& step);

  static constexpr std::size_t kLookNumel = 2;  // norm of the error memory, and its ratio

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
  std::optional<std::uint64_t> start_;  // the key; none: automatic
  std::uint64_t dense_steps_ = 0;       // at the begin of the run
  bool gains_ = true;                   // false: compression would not gain enough
  bool warned_ = false;                 // that an explicit rank is too low
  std::vector<LowRankLayout> layouts_;  // one for each rank that the run may use, rising
  std::size_t level_ = 0;               // the layout in use
  std::vector<float> errors_;           // g - P Q^T of all steps so far, for the matrices alone
  std::vector<float> q_;      // where the next power iteration starts; the same on every rank
  std::vector<float> first_;  // what the first all-reduce carries: P, then the exact tensors, and
                              // kLookNumel numbers on which ranks have to agree
  std::vector<float> own_;    // Q = M^T P of this worker
  std::vector<float> mean_;   // and of all workers
  std::vector<double> scratch_;  // for the orthonormalisation
  struct {
    double dense_bytes = 0, bytes = 0;  // of one exchange
    double vectors = 0, replaced = 0;   // of P, and how many of them had to be replaced
  } counts_;
};

double PowerSgd::bytes_of(const LowRankLayout& layout, const Transport& wire, int rank) {
  const auto bytes = [&](std::size_t numel) {
    return static_cast<double>(
        allreduce_bytes(transport::represented_bytes(wire, numel), rank, wire.size()));
  };
  return bytes(layout.p_numel + layout.exact_numel) + bytes(layout.q_numel);
}

// Compares the bytes of rank 0, which is the same number on every rank.
void PowerSgd::choose_ranks(const StrategyContext& context) {
  // Shares of the bytes of a dense exchange: the most at the start, the most after a rise, and the
  // share from which all steps are dense.
  constexpr double kMostShare = 0.33, kRaisedShare = 0.08, kNoGain = 0.5;
  const Transport& wire = context.wire;
  const auto dense = static_cast<double>(
      allreduce_bytes(transport::represented_bytes(wire, context.layout.numel), 0, wire.size()));
  const auto share_at = [&](std::size_t rank) {
    return bytes_of(low_rank_layout(context.layout, rank), wire, 0) / dense;
  };
  if (rank_.is_fresh()) {
    std::size_t rank = automatic_rank(context.run);
    while (rank > 1 && share_at(rank) > kMostShare) rank /= 2;
    rank_.start(rank);
  }
  for (std::size_t rank = rank_.lowest(); rank <= kernel::kMostRank; rank *= 2) {
    if (rank > rank_.rank() && share_at(rank) > kRaisedShare) break;
    layouts_.push_back(low_rank_layout(context.layout, rank, rank_.lowest()));
    rank_.limit(rank);
    if (rank == rank_.rank()) level_ = layouts_.size() - 1;
  }
  const double least = share_at(rank_.lowest());
  gains_ = !rank_.is_automatic() || least <= kNoGain;
  if (gains_ || wire.rank() != 0) return;
  context.warn(fmt::format(
      "powersgd: an exchange at rank {} would take {:.0f} % of the bytes of a dense one; all steps "
      "are dense",
      rank_.lowest(), 100 * least));
}

void PowerSgd::use_layout(const StrategyContext& context) {
  first_.resize(layout().p_numel + layout().exact_numel);
  own_.resize(layout().q_numel);
  mean_.resize(layout().q_numel);
  counts_.bytes = bytes_of(layout(), context.wire, context.wire.rank());
}

void PowerSgd::begin(const StrategyContext& context) {
  const Transport& wire = context.wire;
  counts_.dense_bytes = static_cast<double>(allreduce_bytes(
      transport::represented_bytes(wire, context.layout.numel), wire.rank(), wire.size()));
  choose_ranks(context);
  dense_steps_ = start_ ? *start_ : automatic_start(context.run);
  const bool fresh = q_.empty();
  const LowRankLayout& largest = layouts_.back();
  first_.reserve(largest.p_numel + largest.exact_numel + kLookNumel);
  own_.reserve(largest.q_numel);
  mean_.reserve(largest.q_numel);
  q_.reserve(largest.q_numel);
  prepare(errors_, layout().error_numel, "error memory");
  prepare(q_, layout().q_numel, "vectors of PowerSGD");
  use_layout(context);
  std::size_t longest = 0;
  for (const LowRankTensor& matrix : largest.matrices) {
    longest = std::max(longest, matrix.shape.p_numel());
  }
  for (const LowRankTensor& matrix : layout().matrices) {
    longest = std::max(longest, matrix.shape.p_numel());
    if (fresh) {
      kernel::rescale(q_of(matrix, q_), matrix.shape.columns, {context.run.seed, 0, matrix.q});
    }
  }
  scratch_.resize(longest);
}

Update PowerSgd::exchange(const GradientStep& step) {
  if (step.step < dense_steps_ || !gains_ || layout().matrices.empty()) {
    return Update::dense(allreduce_mean(step.wire, step.grads));
  }
  const bool looks = step.step % kLookEvery == 0 && step.step > dense_steps_;
  const bool watched = looks || step.step % kWatchEvery == 0;
  const double gradient = watched ? std::sqrt(kernel::squared_norm(step.grads)) : 0;
  const std::size_t numel = layout().p_numel + layout().exact_numel;
  first_.resize(numel + (looks ? kLookNumel : 0));
  if (looks) {
    constexpr double kLargest = 1e30;  // a sum over ranks must be finite
    const double errors = std::sqrt(kernel::squared_norm(errors_));
    const double ratio = gradient > 0 ? errors / gradient : 0;
    first_[numel] = static_cast<float>(std::min(errors, kLargest));
    first_[numel + 1] = static_cast<float>(std::min(ratio, kLargest));
  }
  if (!exchange_factors(step)) return Update::skipped();
  if (gradient > 0 && step.step % kWatchEvery == 0) {
    step.stats.residual_ratio = std::sqrt(kernel::squared_norm(errors_)) / gradient;
  }
  if (looks) react(step, {first_[numel], first_[numel + 1]});
  return Update::dense();
}

// All ranks see the same numbers, so that they raise the rank together.
void PowerSgd::react(const GradientStep& step, const ErrorLook& look) {
  const RankSchedule::Growth growth = rank_.observe(look);
  if (growth == RankSchedule::Growth::calm) return;
  const bool raises = growth == RankSchedule::Growth::raised;
  const std::string text = fmt::format(
      "powersgd: step {}: the error memory has grown to {:.1f} times the gradient and keeps "
      "growing, so that the run may diverge; {}. Use {}a lower learning rate",
      step.step, look.ratio,
      raises ? fmt::format("the rank is now {}", rank_.rank()) : "the rank cannot rise further",
      rank_.is_automatic() ? "" : "rank=auto or ");
  // An automatic rank that rises does what it is for.
  const bool expected = rank_.is_automatic() && raises;
  if (step.wire.rank() == 0 && expected) step.inform(text);
  if (step.wire.rank() == 0 && !expected && !std::exchange(warned_, true)) step.warn(text);
  if (raises) raise_rank(step);
}

// The vectors so far stay; others are drawn.
void PowerSgd::raise_rank(const GradientStep& step) {
  const LowRankLayout& before = layout();
  level_ = static_cast<std::size_t>(std::countr_zero(rank_.rank() / rank_.lowest()));
  std::swap(q_, own_);
  q_.assign(layout().q_numel, 0.0f);
  auto old = before.matrices.begin();
  for (const LowRankTensor& matrix : layout().matrices) {
    while (old->gradient != matrix.gradient) ++old;
    std::ranges::copy(q_of(*old, own_), q_of(matrix, q_).begin());
    kernel::rescale(q_of(matrix, q_), matrix.shape.columns,
                    {step.run.seed, step.step + 1, matrix.q});
  }
  use_layout(step);
}

// A gradient that is not finite makes P so, and the mean of P on every rank: they agree without a
// message of their own, before any state has changed. So it is with sums that overflow in Q.
bool PowerSgd::exchange_factors(const GradientStep& step) {
  timed_codec(step, [&] { project(step.grads); });
  if (!allreduce_mean(step.wire, first_)) return false;
  timed_codec(step, [&] { project_back(step); });
  if (!allreduce_mean(step.wire, mean_)) return false;
  timed_codec(step, [&] { reconstruct(step); });
  return true;
}

// Leaves M = g + e in the place of the gradient: the error memory changes only after the check.
void PowerSgd::project(MutFloats grads) {
  for (const LowRankTensor& matrix : layout().matrices) {
    kernel::project(matrix.shape, error_of(matrix), gradient_of(matrix, grads), q_of(matrix, q_),
                    p_of(matrix));
  }
  float* to = first_.data() + layout().p_numel;
  for (const ExactRange& range : layout().exact) {
    float* const from = grads.data() + range.begin;
    if (range.has_error) {
      for (std::size_t i = 0; i < range.size; ++i) from[i] += errors_[range.error + i];
    }
    to = std::copy_n(from, range.size, to);
  }
}

void PowerSgd::project_back(const GradientStep& step) {
  for (const LowRankTensor& matrix : layout().matrices) {
    // The elements after those of Q, which draws from the same step.
    const kernel::Draw spare{step.run.seed, step.step + 1, layout().q_numel + matrix.p};
    counts_.vectors += static_cast<double>(matrix.shape.rank);
    counts_.replaced += static_cast<double>(
        kernel::orthonormalize(p_of(matrix), matrix.shape.rows, spare, scratch_));
    kernel::project_back(matrix.shape, gradient_of(matrix, step.grads), p_of(matrix),
                         q_of(matrix, own_));
  }
  std::copy(own_.begin(), own_.end(), mean_.begin());
}

void PowerSgd::reconstruct(const GradientStep& step) {
  for (const LowRankTensor& matrix : layout().matrices) {
    kernel::reconstruct(matrix.shape, p_of(matrix), q_of(matrix, own_), q_of(matrix, mean_),
                        gradient_of(matrix, step.grads), error_of(matrix));
  }
  const float* from = first_.data() + layout().p_numel;
  for (const ExactRange& range : layout().exact) {
    std::copy_n(from, range.size, step.grads.data() + range.begin);
    from += range.size;
    if (range.has_error) std::fill_n(errors_.data() + range.error, range.size, 0.0f);
  }
  std::copy(mean_.begin(), mean_.end(), q_.begin());
  for (const LowRankTensor& matrix : layout().matrices) {
    kernel::rescale(q_of(matrix, q_), matrix.shape.columns,
                    {step.run.seed, step.step + 1, matrix.q});
  }
}

std::vector<Metric> PowerSgd::metrics() const {
  double compressed = 0, all = 0;
  if (!layouts_.empty()) {
    for (const LowRankTensor& matrix : layout().matrices) {
      compressed += static_cast<double>(matrix.shape.numel());
    }
    all = compressed + static_cast<double>(layout().exact_numel);
  }
  return {{"compression", counts_.dense_bytes, counts_.bytes},
          {"compressed_share", compressed, all},
          {"rank", static_cast<double>(rank_.rank())},
          {"replaced_vectors", counts_.replaced, counts_.vectors}};
}

void PowerSgd::save(Payload& out) const {
  base::ByteWriter writer(out);
  writer.put(kStateVersion);
  put_floats(writer, errors_);
  put_floats(writer, q_);
  rank_.save(writer);
}

void PowerSgd::load(Bytes in) {
  base::ByteReader reader(in, "the state of PowerSGD");
  expect_version(reader.get<std::uint32_t>(), kStateVersion, "PowerSGD");
  errors_ = get_floats(reader);
  q_ = get_floats(reader);
  rank_.load(reader);
  reader.expect_end();
  if (errors_.empty() != q_.empty()) throw WireError("half of the state of PowerSGD is missing");
}

}  // namespace

std::unique_ptr<Strategy> make_powersgd(base::Spec& spec) {
  return std::make_unique<PowerSgd>(spec);
}

}  // namespace thinwire::strategy
