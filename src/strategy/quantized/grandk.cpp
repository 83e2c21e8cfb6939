// Global RandK-MaxNorm (Vineeth S 2021): in each step all workers send the same few elements, drawn
// at random, as codes that add up inside an all-reduce. No index travels: every worker draws the
// same places. What was not sent waits in a memory until it is drawn (feedback=on), or is forgotten
// and what is sent is scaled up to be right on average (feedback=off). Small tensors go as they
// are.
//
// With feedback there is no momentum but for the small tensors: an element that has waited a
// hundred steps gets a hundred gradients at once, and momentum on top of that, before the memory or
// after it, diverges at learning rates at which this converges. Weight decay acts before the
// memory.
#include <fmt/format.h>

#include <algorithm>

#include "base/spec.h"
#include "kernel/quantize.h"
#include "kernel/topk.h"
#include "kernel/topk_passes.h"
#include "kernel/topk_reference.h"
#include "strategy/common/density.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/small_tensors.h"
#include "strategy/common/state.h"
#include "strategy/quantized/quantized_mean.h"
#include "strategy/quantized/stratified_draw.h"

namespace thinwire::strategy {
namespace {

constexpr std::uint32_t kStateVersion = 1;

class GRandK final : public GradientStrategy {
 public:
  explicit GRandK(base::Spec& spec)
      : density_(DensitySchedule::read(spec, 0.01)), mean_(Quantization::read(spec, "256")) {
    static constexpr std::string_view kFeedback[] = {"on", "off"};
    feedback_ = spec.choice("feedback", kFeedback) == "on";
  }

  SgdConfig optimizer_share(const SgdConfig& asked) const override {
    return feedback_ ? SgdConfig{} : asked;
  }

  void begin(const StrategyContext& context) override {
    const Layout& layout = context.layout;
    const std::size_t numel = context.wire.represented_bytes(layout.numel);
    if (numel > std::size_t{1} << 32) {
      throw ConfigError(
          fmt::format("grandk numbers up to 2^32 parameters; the model has {}", numel));
    }
    small_.find(layout, is_tiny);
    find_large(layout);
    mean_.begin(large_numel_, context.wire.size());
    if (!feedback_) return;
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
    if (!mean_.agree(step, drawn_, highest)) return Update::skipped();
    const bool watched = feedback_ && step.step % kWatchEvery == 0;
    const double gradient_norm = watched ? norm(step.grads) : 0;
    timed_codec(step, [&] { put_aside(step); });
    const bool finite = exchange_drawn(step);
    timed_codec(step, [&] {
      scatter(step.grads);
      small_.put(step.grads, own_);
    });
    if (gradient_norm > 0) step.stats.residual_ratio = norm(residual_) / gradient_norm;
    return Update::dense(finite);
  }

  CostProfile cost_profile() const override { return {.blocks = mean_.blocks()}; }
  std::vector<Metric> metrics() const override { return mean_.metrics(); }

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
  // Elements of the flat buffers that are not small, in order.
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
    draw_ = StratifiedDraw(large_numel_, count);
    places_.resize(count);
    drawn_.resize(count);
    if (feedback_) agreed_.resize(count);
    draw_.at(context.run.seed, context.step, places_);
    // From places among the large elements to places among all.
    std::size_t range = 0, before = 0;
    for (std::uint32_t& place : places_) {
      while (place >= before + large_[range].size) before += large_[range++].size;
      place = static_cast<std::uint32_t>(place - before + large_[range].begin);
    }
  }

  kernel::Accumulation accumulation(const GradientStep& model) {
    kernel::Accumulation out;
    out.gradient = model.grads;
    out.residual = residual_;
    out.weight_decay = own_.weight_decay;
    if (own_.weight_decay != 0) out.params = model.params;
    return out;
  }

  // What will be sent if all is finite; nothing changes yet.
  void gather(const GradientStep& model) {
    const kernel::Accumulation all = feedback_ ? accumulation(model) : kernel::Accumulation{};
    for (std::size_t j = 0; j < places_.size(); ++j) {
      drawn_[j] = feedback_ ? kernel::reference::accumulated(all, places_[j]).residual
                            : model.grads[places_[j]];
    }
  }

  // Only what was drawn, and the small tensors, come back; the rest waits.
  void put_aside(const GradientStep& model) {
    small_.take(model, residual_, own_.weight_decay);
    if (feedback_) {
      kernel::Found nothing;
      kernel::accumulate(accumulation(model), 0, model.grads.size(), kernel::kAboveAll, nothing);
    } else {
      std::ranges::fill(model.grads, 0.0f);
    }
  }

  // If this fails, what was drawn is still in the residual.
  bool exchange_drawn(const GradientStep& context) {
    bool finite = true;
    try {
      finite = small_.exchange(context.wire);
      if (feedback_) {
        mean_.exchange(context, drawn_, agreed_, QuantizedMean::Rounding::nearest);
      } else {
        mean_.exchange(context, drawn_, drawn_, QuantizedMean::Rounding::dithered);
      }
    } catch (...) {
      if (feedback_) small_.give_back(residual_);
      throw;
    }
    return finite;
  }

  void scatter(MutFloats gradient) {
    for (std::size_t j = 0; j < places_.size(); ++j) {
      if (feedback_) {
        gradient[places_[j]] = agreed_[j];
        residual_[places_[j]] = drawn_[j];
      } else {
        gradient[places_[j]] = drawn_[j] * static_cast<float>(draw_.run_length(j));
      }
    }
  }

  DensitySchedule density_;
  QuantizedMean mean_;
  bool feedback_ = true;
  SmallTensors small_;
  std::vector<Range> large_;
  std::size_t large_numel_ = 0;
  SgdConfig own_;                // what of the optimizer's work is done here
  std::vector<float> residual_;  // what waits; empty without feedback
  // Of the step under way:
  StratifiedDraw draw_{0, 0};
  std::vector<std::uint32_t> places_;  // of the elements that are sent
  std::vector<float> drawn_, agreed_;  // the elements; the mean of them
};

}  // namespace

std::unique_ptr<Strategy> make_grandk(base::Spec& spec) { return std::make_unique<GRandK>(spec); }

}  // namespace thinwire::strategy
