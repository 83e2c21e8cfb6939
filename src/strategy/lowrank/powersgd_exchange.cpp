// The exchange of PowerSGD in a step: projection, all-reduce of both factors, reconstruction, and
// the measures against divergence.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "kernel/orthonormal.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/state.h"
#include "strategy/lowrank/powersgd.h"
#include "thinwire/collective.h"

namespace thinwire::strategy {
namespace {

// Steps between observations of the error memory: a run that diverges does so within tens of steps.
constexpr std::uint64_t kObserveEvery = 8;
// Steps after a rise of the rank in which updates are long, because more of the error memory is
// sent.
constexpr std::uint64_t kRisingSteps = 8;

}  // namespace

// A step that failed or was skipped leaves no trace.
Update PowerSgd::exchange(const GradientStep& step) {
  if (!is_compressed(step.step)) {
    const bool finite = allreduce_mean(step.wire, step.grads);
    // Compressed updates are to be compared with those of dense.
    if (finite && step.step < dense_steps_) divergence_.guard.end_step(norm(step.grads));
    return Update::dense(finite);
  }
  const DivergenceState before = divergence_;
  try {
    const Update update = exchange_compressed(step);
    if (update.skip) divergence_ = before;
    return update;
  } catch (...) {
    divergence_ = before;
    throw;
  }
}

// The guard sees nothing but numbers that are the same on every rank, so that no vote is needed.
Update PowerSgd::exchange_compressed(const GradientStep& step) {
  DivergenceGuard& guard = divergence_.guard;
  constexpr double kAll = 1;  // every matrix is sent in every step
  std::string warning =
      guard.begin_step(step.step, std::max(guard.alarm(), divergence_.alarm), kAll);
  const bool dense = guard.safeguards().dense;
  const bool observes = !dense && step.step % kObserveEvery == 0 && step.step > dense_steps_;
  const bool watched = observes || step.step % kWatchEvery == 0;
  const double gradient = watched ? norm(step.grads) : 0;
  const std::size_t numel = layout().p_numel + layout().exact_numel;
  first_.resize(numel + (observes ? kNormsNumel : 0));
  if (observes) {
    constexpr double kLargest = 1e30;  // a sum over ranks must be finite
    const double errors = norm(errors_);
    const double ratio = gradient > 0 ? errors / gradient : 0;
    first_[numel] = static_cast<float>(std::min(errors, kLargest));
    first_[numel + 1] = static_cast<float>(std::min(ratio, kLargest));
  }
  timed_codec(step, [&] { guard.clip(step.grads); });
  if (!(dense ? exchange_dense(step) : exchange_factors(step))) return Update::skipped();
  divergence_.alarm = Alarm::none;
  if (watched) guard.watch_gradient(gradient);
  if (dense) {
    guard.end_step(norm(step.grads));
    warning += fmt::format(". The next {} steps are dense, too",
                           divergence_.dense_periods.start_after(step.step));
    rank_.emptied(divergence_.dense_periods.end());
  } else if (!divergence_.has_risen_within(kRisingSteps, step.step)) {
    guard.end_step(update_norm());
  }
  if (gradient > 0 && step.step % kWatchEvery == 0) {
    step.stats.residual_ratio = norm(errors_) / gradient;
  }
  if (!warning.empty() && step.wire.rank() == 0) step.warn("powersgd: " + warning);
  if (observes) react(step, {first_[numel], first_[numel + 1]});
  if (!warning.empty() && guard.safeguards().density > 1 && rank_.raise()) use_raised_rank(step);
  return Update::dense();
}

// Returns the approximation to the error memory, which then holds the whole matrix again. Steps
// without compression hold back nothing.
void PowerSgd::return_update(const GradientStep& step) {
  if (!is_compressed(step.step)) return;
  for (const LowRankTensor& matrix : layout().matrices) {
    const Floats update = gradient_of(matrix, step.grads);
    const MutFloats error = error_of(matrix);
    for (std::size_t i = 0; i < error.size(); ++i) error[i] += update[i];
  }
  for (const ExactRange& range : layout().exact) {
    if (!range.has_error) continue;
    for (std::size_t i = 0; i < range.size; ++i) {
      errors_[range.error + i] += step.grads[range.begin + i];
    }
  }
}

// All ranks see the same numbers, so that they raise the rank together.
void PowerSgd::react(const GradientStep& step, const ErrorMemoryNorms& norms) {
  const RankSchedule::Growth growth = rank_.observe(step.step, norms);
  if (growth == RankSchedule::Growth::calm) return;
  const bool raises = growth == RankSchedule::Growth::raised;
  const std::string text = fmt::format(
      "powersgd: the error memory keeps growing (step {}, {:.1f} times the gradient), so that the "
      "run may diverge; {}; use {}a lower learning rate",
      step.step, norms.ratio,
      raises ? fmt::format("the rank is now {}", rank_.rank()) : "the rank cannot rise further",
      rank_.is_automatic() ? "" : "rank=auto or ");
  // An automatic rank that rises does what it is for.
  const bool expected = rank_.is_automatic() && raises;
  const bool warns = !expected && !std::exchange(divergence_.warned, true);
  if (step.wire.rank() == 0 && expected) step.inform(text);
  if (step.wire.rank() == 0 && warns) step.warn(text);
  if (raises) {
    use_raised_rank(step);
  } else {
    // At first gradients are clipped. If that did not help until now, the next step is dense.
    divergence_.alarm = divergence_.guard.safeguards().clip ? Alarm::urgent : Alarm::growing;
  }
}

// The present vectors stay; the additional ones are drawn at random.
void PowerSgd::use_raised_rank(const GradientStep& step) {
  const LowRankLayout& before = layout();
  level_ = static_cast<std::size_t>(std::countr_zero(rank_.rank() / rank_.lowest()));
  divergence_.raised_at = step.step;
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

// Sends all of g + e, and starts with an empty error memory.
bool PowerSgd::exchange_dense(const GradientStep& step) {
  timed_codec(step, [&] {
    const auto add_error = [&](std::size_t gradient, std::size_t error, std::size_t size) {
      for (std::size_t i = 0; i < size; ++i) step.grads[gradient + i] += errors_[error + i];
    };
    for (const LowRankTensor& matrix : layout().matrices) {
      add_error(matrix.gradient, matrix.error, matrix.shape.numel());
    }
    for (const ExactRange& range : layout().exact) {
      if (range.has_error) add_error(range.begin, range.error, range.size);
    }
  });
  if (!allreduce_mean(step.wire, step.grads)) return false;
  timed_codec(step, [&] {
    std::ranges::fill(errors_, 0.0f);
    divergence_.guard.shorten(step.grads);
  });
  return true;
}

// The columns of P are orthonormal, so that P Q^T is as long as Q.
double PowerSgd::update_norm() const {
  const Floats exact = Floats(first_).subspan(layout().p_numel, layout().exact_numel);
  return std::sqrt(kernel::squared_norm(mean_) + kernel::squared_norm(exact));
}

// If a gradient is not finite, P is not finite either, nor is the mean of P on every rank. So ranks
// agree without an additional message, before any state has changed. The same holds for sums that
// overflow in Q.
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

}  // namespace thinwire::strategy
