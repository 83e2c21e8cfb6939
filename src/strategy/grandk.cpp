// Global RandK-MaxNorm (Vineeth S 2021): in each step all workers send the same few elements, drawn
// at random, as codes that add up inside an all-reduce. No index travels: every worker draws the
// same blocks. What was not sent waits in a memory until its block is drawn (feedback=on), or is
// forgotten and what is sent is scaled up to be right on average (feedback=off).
#include <algorithm>
#include <cmath>

#include "kernel/quantize.h"
#include "strategy/block_draw.h"
#include "strategy/density.h"
#include "strategy/phase_time.h"
#include "strategy/quantized_mean.h"
#include "strategy/state.h"
#include "thinwire/sparse.h"

namespace thinwire {
namespace {

// Elements that are drawn together: a few cache lines.
constexpr std::size_t kBlock = 64;
constexpr std::uint32_t kStateVersion = 1;
constexpr std::uint64_t kWatchEvery = 16;  // steps; two passes over memory each

class GRandK final : public Strategy {
 public:
  explicit GRandK(Spec& spec)
      : density_(DensityPlan::read(spec, 0.01)), mean_(Quantization::read(spec)) {
    static constexpr std::string_view kFeedback[] = {"on", "off"};
    feedback_ = spec.choice("feedback", kFeedback) == "on";
  }

  void begin(StepContext& context) override {
    if (context.wire.size() == 1) return;
    const std::size_t numel = context.model.layout.numel;
    blocks_ = (numel + kBlock - 1) / kBlock;
    if (feedback_) prepare(residual_, numel, "residual");
    mean_.begin(numel, context.wire.size());
  }

  void after_backward(StepContext& context) override {
    const ModelView& model = context.model;
    if (context.wire.size() == 1) {
      context.skip = !all_finite(model.grads);
      return;
    }
    std::uint32_t highest = 0;
    timed_codec(context, [&] {
      highest = kernel::highest_magnitude(model.grads);
      draw(context);
      gather(model.grads);
    });
    context.skip = !mean_.agree(context, drawn_, highest);
    if (context.skip) return;
    const bool watched = feedback_ && context.step % kWatchEvery == 0;
    const double gradient_norm = watched ? norm(model.grads) : 0;
    timed_codec(context, [&] { put_aside(model.grads); });
    const auto rounding =
        feedback_ ? QuantizedMean::Rounding::nearest : QuantizedMean::Rounding::dithered;
    const float factor =
        feedback_ ? 1 : static_cast<float>(blocks_) / static_cast<float>(places_.size());
    mean_.exchange(context, drawn_, feedback_ ? MutFloats(agreed_) : MutFloats(drawn_), rounding,
                   factor);
    timed_codec(context, [&] { scatter(model.grads); });
    if (gradient_norm > 0) context.stats.residual_ratio = norm(residual_) / gradient_norm;
  }

  std::vector<Figure> figures() const override {
    if (!mean_.many_scales()) return {};
    return {{"fine_share", mean_.fine(), mean_.elements()}};
  }

  void save(Payload& out) const override {
    ByteWriter writer(out);
    writer.put(kStateVersion);
    put_floats(writer, residual_);
  }

  void load(Bytes in) override {
    ByteReader reader(in, "the state of grandk");
    expect_version(reader.get<std::uint32_t>(), kStateVersion, "grandk");
    residual_ = get_floats(reader);
    reader.expect_end();
  }

 private:
  void draw(const StepContext& context) {
    const std::size_t count = density_.count(blocks_, context.step, context.run);
    places_.reserve(count);
    draw_blocks(context.run.seed, context.step, blocks_, count, places_);
    const std::size_t numel = context.model.layout.numel;
    std::size_t elements = places_.size() * kBlock;
    // Only the last block can be short, and it comes last.
    if (places_.back() == blocks_ - 1) elements -= blocks_ * kBlock - numel;
    drawn_.resize(elements);
    if (feedback_) agreed_.resize(elements);
  }

  // Calls visit(place in the vector, place among what is drawn, elements) for each block.
  template <class Visit>
  void for_blocks(Visit visit) const {
    std::size_t at = 0;
    for (const std::uint64_t block : places_) {
      const std::size_t size = std::min(kBlock, drawn_.size() - at);
      visit(static_cast<std::size_t>(block) * kBlock, at, size);
      at += size;
    }
  }

  void gather(Floats gradient) {
    for_blocks([&](std::size_t from, std::size_t to, std::size_t size) {
      for (std::size_t i = 0; i < size; ++i) {
        drawn_[to + i] = gradient[from + i] + (feedback_ ? residual_[from + i] : 0);
      }
    });
  }

  // Only what was drawn comes back; the rest waits.
  void put_aside(MutFloats gradient) {
    if (feedback_) {
      for (std::size_t i = 0; i < gradient.size(); ++i) residual_[i] += gradient[i];
    }
    std::ranges::fill(gradient, 0.0f);
  }

  void scatter(MutFloats gradient) {
    for_blocks([&](std::size_t to, std::size_t from, std::size_t size) {
      const auto* mean = (feedback_ ? agreed_ : drawn_).data() + from;
      std::copy_n(mean, size, gradient.data() + to);
      if (feedback_) std::copy_n(drawn_.data() + from, size, residual_.data() + to);
    });
  }

  DensityPlan density_;
  QuantizedMean mean_;
  bool feedback_ = true;
  std::size_t blocks_ = 0;
  std::vector<float> residual_;  // what waits; empty without feedback
  // Of the step under way:
  std::vector<std::uint64_t> places_;  // of the blocks
  std::vector<float> drawn_, agreed_;  // their elements; the mean of them
};

}  // namespace

std::unique_ptr<Strategy> make_grandk(Spec& spec) { return std::make_unique<GRandK>(spec); }

}  // namespace thinwire
