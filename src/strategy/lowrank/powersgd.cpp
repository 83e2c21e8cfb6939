// PowerSGD (Vogels et al. 2019): the gradient of a matrix M is sent as P Q^T of low rank, found by
// one step of power iteration that goes on from the last one. What it misses waits in the worker's
// error memory (error feedback). Both factors are averaged by all-reduce, so that the bytes sent do
// not grow with the number of workers.
#include <algorithm>
#include <cmath>

#include "base/spec.h"
#include "kernel/orthonormal.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/state.h"
#include "strategy/lowrank/low_rank.h"
#include "thinwire/collective.h"
#include "thinwire/strategy.h"
#include "transport/payload_scale.h"

namespace thinwire::strategy {
namespace {

constexpr std::uint32_t kStateVersion = 1;

class PowerSgd final : public GradientStrategy {
 public:
  explicit PowerSgd(base::Spec& spec)
      : rank_(static_cast<std::size_t>(spec.integer("rank", 1, 1, kernel::kMostRank))),
        start_(static_cast<std::uint64_t>(spec.integer("start", 100, 0, 1'000'000'000))) {}

  void begin(const StrategyContext& context) override;
  Update exchange(const GradientStep& step) override;
  CostProfile cost_profile() const override { return {.by_matrix_shape = true}; }
  std::vector<Metric> metrics() const override;
  void save(Payload& out) const override;
  void load(Bytes in) override;

 private:
  bool exchange_factors(const GradientStep& step);
  void project(MutFloats grads);
  void project_back(const GradientStep& step);
  void reconstruct(const GradientStep& step);

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

  std::size_t rank_;
  std::uint64_t start_;
  LowRankLayout layout_;
  std::vector<float> errors_;    // g - P Q^T of all steps so far, for the matrices alone
  std::vector<float> q_;         // where the next power iteration starts; the same on every rank
  std::vector<float> first_;     // what the first all-reduce carries: P, then the exact tensors
  std::vector<float> own_;       // Q = M^T P of this worker
  std::vector<float> mean_;      // and of all workers
  std::vector<double> scratch_;  // for the orthonormalisation
  struct {
    double dense_bytes = 0, bytes = 0;  // of one exchange
    double vectors = 0, replaced = 0;   // of P, and how many of them had to be drawn anew
  } counts_;
};

void PowerSgd::begin(const StrategyContext& context) {
  const Transport& wire = context.wire;
  const Layout& layout = context.layout;
  layout_ = low_rank_layout(layout, rank_);
  const bool fresh = q_.empty();
  prepare(errors_, layout_.matrix_numel, "error memory");
  prepare(q_, layout_.q_numel, "vectors of PowerSGD");
  first_.resize(layout_.p_numel + layout_.exact_numel);
  own_.resize(layout_.q_numel);
  mean_.resize(layout_.q_numel);
  std::size_t longest = 0;
  for (const LowRankTensor& matrix : layout_.matrices) {
    longest = std::max(longest, matrix.shape.p_numel());
    if (fresh) {
      kernel::rescale(q_of(matrix, q_), matrix.shape.columns, {context.run.seed, 0, matrix.q});
    }
  }
  scratch_.resize(longest);
  const auto bytes = [&](std::size_t numel) {
    return static_cast<double>(
        allreduce_bytes(transport::represented_bytes(wire, numel), wire.rank(), wire.size()));
  };
  counts_.dense_bytes = bytes(layout.numel);
  counts_.bytes = bytes(first_.size()) + bytes(mean_.size());
}

Update PowerSgd::exchange(const GradientStep& step) {
  if (step.step < start_ || layout_.matrices.empty()) {
    return Update::dense(allreduce_mean(step.wire, step.grads));
  }
  const bool watched = step.step % kWatchEvery == 0;
  const double gradient = watched ? std::sqrt(kernel::squared_norm(step.grads)) : 0;
  const bool finite = exchange_factors(step);
  if (gradient > 0 && finite) {
    step.stats.residual_ratio = std::sqrt(kernel::squared_norm(errors_)) / gradient;
  }
  return Update::dense(finite);
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
  for (const LowRankTensor& matrix : layout_.matrices) {
    kernel::project(matrix.shape, error_of(matrix), gradient_of(matrix, grads), q_of(matrix, q_),
                    p_of(matrix));
  }
  float* to = first_.data() + layout_.p_numel;
  for (const ExactRange& range : layout_.exact) {
    to = std::copy_n(grads.data() + range.begin, range.size, to);
  }
}

void PowerSgd::project_back(const GradientStep& step) {
  for (const LowRankTensor& matrix : layout_.matrices) {
    // The elements after those of Q, which draws from the same step.
    const kernel::Draw spare{step.run.seed, step.step + 1, layout_.q_numel + matrix.p};
    counts_.vectors += static_cast<double>(matrix.shape.rank);
    counts_.replaced += static_cast<double>(
        kernel::orthonormalize(p_of(matrix), matrix.shape.rows, spare, scratch_));
    kernel::project_back(matrix.shape, gradient_of(matrix, step.grads), p_of(matrix),
                         q_of(matrix, own_));
  }
  std::copy(own_.begin(), own_.end(), mean_.begin());
}

void PowerSgd::reconstruct(const GradientStep& step) {
  for (const LowRankTensor& matrix : layout_.matrices) {
    kernel::reconstruct(matrix.shape, p_of(matrix), q_of(matrix, own_), q_of(matrix, mean_),
                        gradient_of(matrix, step.grads), error_of(matrix));
  }
  const float* from = first_.data() + layout_.p_numel;
  for (const ExactRange& range : layout_.exact) {
    std::copy_n(from, range.size, step.grads.data() + range.begin);
    from += range.size;
  }
  std::copy(mean_.begin(), mean_.end(), q_.begin());
  for (const LowRankTensor& matrix : layout_.matrices) {
    kernel::rescale(q_of(matrix, q_), matrix.shape.columns,
                    {step.run.seed, step.step + 1, matrix.q});
  }
}

std::vector<Metric> PowerSgd::metrics() const {
  const auto compressed = static_cast<double>(layout_.matrix_numel);
  return {{"compression", counts_.dense_bytes, counts_.bytes},
          {"compressed_share", compressed, compressed + static_cast<double>(layout_.exact_numel)},
          {"replaced_vectors", counts_.replaced, counts_.vectors}};
}

void PowerSgd::save(Payload& out) const {
  base::ByteWriter writer(out);
  writer.put(kStateVersion);
  put_floats(writer, errors_);
  put_floats(writer, q_);
}

void PowerSgd::load(Bytes in) {
  base::ByteReader reader(in, "the state of PowerSGD");
  expect_version(reader.get<std::uint32_t>(), kStateVersion, "PowerSGD");
  errors_ = get_floats(reader);
  q_ = get_floats(reader);
  reader.expect_end();
  if (errors_.empty() != q_.empty()) throw WireError("half of the state of PowerSGD is missing");
}

}  // namespace

std::unique_ptr<Strategy> make_powersgd(base::Spec& spec) {
  return std::make_unique<PowerSgd>(spec);
}

}  // namespace thinwire::strategy
