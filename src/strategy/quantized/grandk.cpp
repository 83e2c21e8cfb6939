// Global RandK-MaxNorm (Vineeth S 2021) with error feedback: in each step all workers send the same
// elements, drawn at random, as codes that add up inside an all-reduce. No index is sent: every
// worker draws the same places. Small tensors are sent in every step. Elements that are not sent
// stay in the residual until they are drawn.
//
// A drawn element sends its gradient of this step for all steps since it was drawn, and a part of
// what that misses. If it sent the whole residual, its gradients would arrive late, and momentum
// multiplies late gradients: with momentum m and a delay of one step, SGD is stable only while rate
// x curvature < 1 - m. At low densities even this is too much: there is no momentum then, and the
// whole residual is sent.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/spec.h"
#include "collective/quantized_allreduce.h"
#include "kernel/quantize.h"
#include "strategy/common/dense_periods.h"
#include "strategy/common/density.h"
#include "strategy/common/divergence_guard.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/small_tensors.h"
#include "strategy/common/state.h"
#include "strategy/quantized/quantization_keys.h"
#include "strategy/quantized/step_timing.h"
#include "strategy/quantized/stratified_draw.h"
#include "transport/payload_scale.h"

namespace thinwire::strategy {
namespace {

constexpr std::uint32_t kStateVersion = 3;
// From this density on there is momentum. At density 0.1, momentum makes LeNet diverge at a
// learning rate at which dense is stable.
constexpr double kDense = 0.25;
// How much of the residual that the gradient of this step does not explain is sent, if there is
// momentum. LeNet at density 0.25 (one seed): 1 and 0 diverge,
// 0.1, 0.25 and 0.3 end at 96.8, 97.4 and 98.75 %, dense at 99.0 %.
constexpr float kCorrection = 0.25f;

// Returns the lowest density at which a run of this length sends every element often enough.
double covering_density(std::uint64_t steps) {
  constexpr double kCoverage = 60;  // times that each element is sent in the run
  constexpr double kLowest = 0.33;  // at 0.25, LeNet ended 1.6 points below dense after 282 steps
  if (steps == 0) return kLowest;
  return std::clamp(kCoverage / static_cast<double>(steps), kLowest, 1.0);
}

// Elements of the flat buffers that follow each other.
struct Range {
  std::size_t begin, size;
};

class GRandK final : public GradientStrategy {
 public:
  explicit GRandK(base::Spec& spec)
      : density_(spec.number_or_auto("density", DensitySchedule::kLowest, 1)),
        schedule_(DensitySchedule::read(spec)),
        allreduce_(read_quantization(spec, "256")) {}

  SgdConfig optimizer_share(const SgdConfig& asked) const override {
    SgdConfig share = asked;
    if (!has_momentum()) share.momentum = 0, share.nesterov = false;
    return share;
  }

  void begin(const StrategyContext& context) override {
    const Layout& layout = context.layout;
    const std::size_t numel = transport::represented_bytes(context.wire, layout.numel);
    if (numel > std::size_t{1} << 32) {
      throw ConfigError(
          fmt::format("grandk: the model has too many parameters ({}); at most 2^32", numel));
    }
    schedule_.set_target(density_.value_or(covering_density(context.run.steps)));
    find_ranges(layout);
    allreduce_.begin(layout.numel, context.wire.size());
    prepare(residual_, layout.numel, "residual");
    if (!has_momentum() && context.run.sgd.momentum != 0 && context.wire.rank() == 0) {
      context.warn(fmt::format(
          "grandk: there is no momentum below density {:g} ({:g}); expect slower training", kDense,
          schedule_.target()));
    }
  }

  // A step that failed or was skipped leaves no trace in the guard.
  Update exchange(const GradientStep& step) override {
    const DivergenceGuard before = guard_;
    try {
      const Update update = exchange_drawn(step);
      if (update.skip) guard_ = before;
      return update;
    } catch (...) {
      guard_ = before;
      throw;
    }
  }

  // Every worker holds back the mean, which adds up to what all of them sent.
  void return_update(const GradientStep& step) override {
    for (std::size_t i = 0; i < residual_.size(); ++i) residual_[i] += step.grads[i];
  }

  CostProfile cost_profile() const override {
    return {.blocks = allreduce_.counts().two_hop_tiles};
  }
  std::vector<Metric> metrics() const override {
    std::vector<Metric> out = quantized_metrics(allreduce_);
    out.push_back({"density", schedule_.target()});
    return out;
  }

  void save(Payload& out) const override {
    base::ByteWriter writer(out);
    writer.put(kStateVersion);
    put_floats(writer, residual_);
    guard_.save(writer);
    dense_periods_.save(writer);
  }

  void load(Bytes in) override {
    base::ByteReader reader(in, "the state of grandk");
    expect_version(reader, kStateVersion, "grandk");
    residual_ = get_floats(reader);
    guard_.load(reader);
    dense_periods_.load(reader);
    reader.expect_end();
  }

 private:
  bool has_momentum() const noexcept { return !density_ || *density_ >= kDense; }

  // The guard sees only the norm of the update, which is the same on every rank, so that no vote is
  // needed.
  Update exchange_drawn(const GradientStep& step) {
    const bool recovers = dense_periods_.contains(step.step);
    std::string warning;
    if (!recovers) warning = guard_.begin_step(step.step, guard_.alarm(), schedule_.target());
    const bool alarmed = !recovers && guard_.safeguards().dense;
    draws_all_ = recovers || alarmed;
    const bool watched = step.step % kWatchEvery == 0;
    double gradient_norm = 0;
    std::uint32_t highest = 0;
    timed_codec(step, [&] {
      highest = kernel::highest_magnitude(step.grads);
      if (watched) gradient_norm = norm(step.grads);
      if (!recovers) guard_.clip(step.grads);
      draw(step);
      gather(step.grads);
    });
    StepTiming timing(step);
    if (!allreduce_.agree(step.wire, timing, drawn_, highest)) return Update::skipped();
    timed_codec(step, [&] { put_aside(step.grads); });
    allreduce_.exchange(step.wire, timing,
                        {drawn_, agreed_, collective::Rounding::nearest, step.run.seed, step.step});
    timed_codec(step, [&] {
      scatter(step.grads);
      if (alarmed) {
        std::ranges::fill(residual_, 0.0f);
        guard_.shorten(step.grads);
      }
      if (!recovers) guard_.end_step(norm(alarmed ? Floats(step.grads) : Floats(agreed_)));
    });
    if (alarmed) {
      warning += fmt::format(". The next {} steps draw all elements, too",
                             dense_periods_.start_after(step.step));
    }
    if (watched && !recovers) guard_.watch_gradient(gradient_norm);
    if (gradient_norm > 0) step.stats.residual_ratio = norm(residual_) / gradient_norm;
    if (!warning.empty() && step.wire.rank() == 0) step.warn("grandk: " + warning);
    return Update::dense();
  }

  void find_ranges(const Layout& layout) {
    large_.clear();
    small_.clear();
    large_numel_ = 0;
    for (const TensorSlot& tensor : layout.tensors) {
      (is_tiny(tensor) ? small_ : large_).push_back({tensor.offset, tensor.numel()});
      if (!is_tiny(tensor)) large_numel_ += tensor.numel();
    }
  }

  // Returns how many elements of large tensors are drawn.
  std::size_t count(const GradientStep& step) const {
    if (draws_all_) return large_numel_;
    const std::size_t usual = schedule_.count(large_numel_, step.step, step.run);
    return std::min(large_numel_, static_cast<std::size_t>(guard_.safeguards().density) * usual);
  }

  // Draws elements of large tensors, and adds all elements of small ones after them.
  void draw(const GradientStep& step) {
    large_drawn_ = count(step);
    places_.resize(large_drawn_);
    StratifiedDraw(large_numel_, large_drawn_).at(step.run.seed, step.step, places_);
    // So far a place counts large elements only; make it count all.
    std::size_t range = 0, before = 0;
    for (std::uint32_t& place : places_) {
      while (place >= before + large_[range].size) before += large_[range++].size;
      place = static_cast<std::uint32_t>(place - before + large_[range].begin);
    }
    for (const Range& small : small_) {
      for (std::size_t i = small.begin; i < small.begin + small.size; ++i) {
        places_.push_back(static_cast<std::uint32_t>(i));
      }
    }
  }

  // Reads the elements that will be sent if all gradients are finite. Nothing changes yet.
  void gather(Floats grads) {
    drawn_.resize(places_.size());
    agreed_.resize(places_.size());
    kept_.resize(large_drawn_);
    const float correction = has_momentum() && !draws_all_ ? kCorrection : 1;
    const StratifiedDraw runs(large_numel_, large_drawn_);
    for (std::size_t j = 0; j < places_.size(); ++j) {
      const float held = residual_[places_[j]] + grads[places_[j]];
      drawn_[j] = held;
      if (j >= large_drawn_) continue;
      const float since = static_cast<float>(runs.length(j)) * grads[places_[j]];
      drawn_[j] = correction * held + (1 - correction) * since;
      kept_[j] = held - drawn_[j];
    }
  }

  // Moves the gradient to the residual. scatter() takes back what was sent. If the exchange fails,
  // all of it is still in the residual.
  void put_aside(MutFloats grads) {
    for (std::size_t i = 0; i < grads.size(); ++i) {
      residual_[i] += grads[i];
      grads[i] = 0;
    }
  }

  // After the exchange `drawn_` holds the rounding errors.
  void scatter(MutFloats grads) {
    for (std::size_t j = 0; j < places_.size(); ++j) {
      grads[places_[j]] = agreed_[j];
      residual_[places_[j]] = drawn_[j] + (j < large_drawn_ ? kept_[j] : 0);
    }
  }

  std::optional<double> density_;  // the key; none: automatic
  DensitySchedule schedule_;
  collective::QuantizedAllreduce allreduce_;
  std::vector<Range> large_, small_;
  std::size_t large_numel_ = 0;
  std::vector<float> residual_;
  DivergenceGuard guard_;
  DensePeriods dense_periods_;
  // State of the current step:
  bool draws_all_ = false;
  std::vector<std::uint32_t> places_;  // of the elements that are sent
  std::size_t large_drawn_ = 0;        // how many of them are of large tensors: the first
  std::vector<float> drawn_, agreed_;  // the elements, and their mean over all workers
  std::vector<float> kept_;            // the part of large elements that is not sent
};

}  // namespace

std::unique_ptr<Strategy> make_grandk(base::Spec& spec) { return std::make_unique<GRandK>(spec); }

}  // namespace thinwire::strategy
