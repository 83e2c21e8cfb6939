// Global RandK-MaxNorm (Vineeth S 2021) with error feedback: in each step all workers send the same
// few elements, drawn at random, as codes that add up inside an all-reduce. No index is sent: every
// worker draws the same places. Elements that are not sent stay in the residual until they are
// drawn. Small tensors are sent in full precision.
//
// Only the small tensors have momentum. An element that has waited a hundred steps gets a hundred
// gradients at once; momentum on top of that, before or after the residual, diverges at learning
// rates at which this converges. Weight decay acts before the residual.
#include <fmt/format.h>

#include <algorithm>

#include "base/spec.h"
#include "collective/quantized_allreduce.h"
#include "kernel/quantize.h"
#include "kernel/topk.h"
#include "kernel/topk_passes.h"
#include "kernel/topk_reference.h"
#include "strategy/common/density.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/small_tensors.h"
#include "strategy/common/state.h"
#include "strategy/quantized/quantization_keys.h"
#include "strategy/quantized/step_timing.h"
#include "strategy/quantized/stratified_draw.h"
#include "transport/payload_scale.h"

namespace thinwire::strategy {
namespace {

constexpr std::uint32_t kStateVersion = 1;

class GRandK final : public GradientStrategy {
 public:
  explicit GRandK(base::Spec& spec)
      : density_(DensitySchedule::read(spec, 0.01)), allreduce_(read_quantization(spec, "256")) {}

  SgdConfig optimizer_share(const SgdConfig&) const override { return {}; }

  void begin(const StrategyContext& context) override {
    const Layout& layout = context.layout;
    const std::size_t numel = transport::represented_bytes(context.wire, layout.numel);
    if (numel > std::size_t{1} << 32) {
      throw ConfigError(
          fmt::format("grandk: the model has too many parameters ({}); at most 2^32", numel));
    }
    small_.find(layout, is_tiny);
    find_large(layout);
    allreduce_.begin(large_numel_, context.wire.size());
    own_ = context.run.sgd;
    prepare(residual_, layout.numel, "residual");
    prepare(small_.velocity(), own_.momentum == 0 ? 0 : small_.numel(),
            "velocity of small tensors");
  }

  Update exchange(const GradientStep& step) override {
    std::uint32_t highest = 0;
    timed_codec(step, [&] {
      highest = kernel::highest_magnitude(step.grads);
      draw(step);
      gather(step);
    });
    StepTiming timing(step);
    if (!allreduce_.agree(step.wire, timing, drawn_, highest)) return Update::skipped();
    const bool watched = step.step % kWatchEvery == 0;
    const double gradient_norm = watched ? norm(step.grads) : 0;
    timed_codec(step, [&] { put_aside(step); });
    const bool finite = exchange_drawn(step, timing);
    timed_codec(step, [&] {
      scatter(step.grads);
      small_.put(step.grads, own_);
    });
    if (gradient_norm > 0) step.stats.residual_ratio = norm(residual_) / gradient_norm;
    return Update::dense(finite);
  }

  CostProfile cost_profile() const override {
    return {.blocks = allreduce_.counts().two_hop_tiles};
  }
  std::vector<Metric> metrics() const override { return quantized_metrics(allreduce_); }

  void save(Payload& out) const override {
    base::ByteWriter writer(out);
    writer.put(kStateVersion);
    put_floats(writer, residual_);
    put_floats(writer, small_.velocity());
  }

  void load(Bytes in) override {
    base::ByteReader reader(in, "the state of grandk");
    expect_version(reader.get<std::uint32_t>(), kStateVersion, "grandk");
    residual_ = get_floats(reader);
    small_.velocity() = get_floats(reader);
    reader.expect_end();
  }

 private:
  // A range of elements of the flat buffers that belongs to a large tensor.
  struct Range {
    std::size_t begin, size;
  };

  void find_large(const Layout& layout) {
    large_.clear();
    large_numel_ = 0;
    for (const TensorSlot& tensor : layout.tensors) {
      if (is_tiny(tensor)) continue;
      large_.push_back({tensor.offset, tensor.numel()});
      large_numel_ += tensor.numel();
    }
  }

  void draw(const GradientStep& context) {
    const std::size_t count =
        large_numel_ == 0 ? 0 : density_.count(large_numel_, context.step, context.run);
    places_.resize(count);
    drawn_.resize(count);
    agreed_.resize(count);
    StratifiedDraw(large_numel_, count).at(context.run.seed, context.step, places_);
    // So far a place counts large elements only; make it count all.
    std::size_t range = 0, before = 0;
    for (std::uint32_t& place : places_) {
      while (place >= before + large_[range].size) before += large_[range++].size;
      place = static_cast<std::uint32_t>(place - before + large_[range].begin);
    }
  }

  kernel::Accumulation accumulation(const GradientStep& step) {
    kernel::Accumulation out;
    out.gradient = step.grads;
    out.residual = residual_;
    out.weight_decay = own_.weight_decay;
    if (own_.weight_decay != 0) out.params = step.params;
    return out;
  }

  // Reads the elements that will be sent if all gradients are finite. Nothing changes yet.
  void gather(const GradientStep& step) {
    const kernel::Accumulation all = accumulation(step);
    for (std::size_t j = 0; j < places_.size(); ++j) {
      drawn_[j] = kernel::reference::accumulated(all, places_[j]).residual;
    }
  }

  // Moves the gradient to the residual. scatter() takes back the drawn elements.
  void put_aside(const GradientStep& step) {
    small_.take(step, residual_, own_.weight_decay);
    kernel::Found nothing;
    kernel::accumulate(accumulation(step), 0, step.grads.size(), kernel::kAboveAll, nothing);
  }

  // If this throws, the drawn elements are still in the residual.
  bool exchange_drawn(const GradientStep& context, StepTiming& timing) {
    bool finite = true;
    try {
      finite = small_.exchange(context.wire);
      allreduce_.exchange(
          context.wire, timing,
          {drawn_, agreed_, collective::Rounding::nearest, context.run.seed, context.step});
    } catch (...) {
      small_.give_back(residual_);
      throw;
    }
    return finite;
  }

  void scatter(MutFloats gradient) {
    for (std::size_t j = 0; j < places_.size(); ++j) {
      gradient[places_[j]] = agreed_[j];
      residual_[places_[j]] = drawn_[j];
    }
  }

  DensitySchedule density_;
  collective::QuantizedAllreduce allreduce_;
  SmallTensors small_;
  std::vector<Range> large_;
  std::size_t large_numel_ = 0;
  SgdConfig own_;  // the part of the optimizer's work that is done here
  std::vector<float> residual_;
  // State of the current step:
  std::vector<std::uint32_t> places_;  // of the elements that are sent
  std::vector<float> drawn_, agreed_;  // the elements, and their mean over all workers
};

}  // namespace

std::unique_ptr<Strategy> make_grandk(base::Spec& spec) { return std::make_unique<GRandK>(spec); }

}  // namespace thinwire::strategy
