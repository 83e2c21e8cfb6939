// Local Asynchronous SGD (Avidor and Tal Israel, arXiv 2203.13085): every worker trains at its own
// speed, while a task in the background averages snapshots of all models by all-reduce.
// docs/asynchronous.md describes how averages enter the models.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/spec.h"
#include "kernel/finite.h"
#include "strategy/averaging/difference_average.h"
#include "strategy/averaging/merge_ledger.h"
#include "strategy/common/consensus.h"
#include "strategy/common/gradient_guard.h"
#include "strategy/common/phase_time.h"
#include "strategy/common/progress_rounds.h"
#include "strategy/common/state.h"
#include "thinwire/collective.h"
#include "transport/payload_scale.h"

namespace thinwire::strategy {
namespace {

constexpr std::uint32_t kStateVersion = 4;
constexpr std::uint64_t kAuto = 0;
constexpr unsigned kFullBits = 32;
constexpr std::uint64_t kShortestBound = 16;  // steps, when it is automatic
// Elements that are averaged at a time: large enough that latency does not matter, small next to
// the model.
constexpr std::size_t kPart = std::size_t{4} << 20;

// A worker corrects with R - S a difference that it had when the round began. In directions in
// which its own steps have undone the difference since, a full correction brings it back with the
// opposite sign, round after round, and momentum makes it grow. Half of it never does: a difference
// e of which the own steps leave a e becomes (a - 1/2) e, which is smaller for every a from 0 to 1.
constexpr float kGain = 0.5f;
constexpr float kLeastShare = 0.05f;  // of what is pending, per step

class LaSgd final : public ModelStrategy {
 public:
  LaSgd(std::uint64_t period, std::uint64_t bound, unsigned bits)
      : asked_period_(period),
        asked_bound_(bound),
        bits_(bits),
        rounds_([this](Transport& lane) { average(lane); }) {
    if (bits < kFullBits) differences_.emplace(bits);
  }

  void begin(const StrategyContext& context, Floats params, std::uint64_t step) override {
    last_merge_ = step;
    ledger_.begin(params);
    numel_ = params.size();
    if (differences_) {
      differences_->begin(params, part_numel(context.wire), context.wire.size());
    }
    rounds_.open(context.wire, context.run.samples);
  }

  std::uint64_t dense_steps(const RunOptions& run) const override { return synchronous_steps(run); }

  void before_step(const GradientStep& step) override { guard_.limit(step, period()); }

  void after_step(const ModelStep& step) override {
    if (step.step < synchronous_steps(step.run)) {
      warm_up_step(step);
    } else {
      free_step(step);
    }
  }

  void quiesce(const StrategyContext&, MutFloats) override {
    rounds_.stop();
    remember_samples();
  }

  void end(const StrategyContext& context, MutFloats params) override {
    rounds_.stop();
    remember_samples();
    ledger_.merge(params);
    agree_on_mean(context, params);
  }

  SyncMode sync_mode() const override { return SyncMode::asynchronous; }
  std::uint64_t global_samples() const override {
    return std::max(global_samples_, rounds_.global_samples());
  }

  CostProfile cost_profile() const override {
    return {.exchanges = static_cast<double>(rounds_.completed())};
  }
  std::vector<Metric> metrics() const override {
    const auto rounds = static_cast<double>(rounds_.completed());
    std::vector<Metric> out = {
        {"rounds", rounds},
        {"overlap_steps", static_cast<double>(rounds_.overlapped_steps()), rounds},
        {"blocked", blocked_.count()},
        {"blocked_steps", static_cast<double>(blocked_steps_)},
        {"period", static_cast<double>(period())}};
    guard_.report(out);
    return out;
  }

  void save(Payload& out) const override {
    base::ByteWriter writer(out);
    writer.put(kStateVersion);
    writer.put(samples_);
    writer.put(global_samples_);
    guard_.save(writer);
    put_floats(writer, ledger_.pending());
    writer.put<std::uint32_t>(bits_);
    put_floats(writer, differences_ ? Floats(differences_->reference()) : Floats());
    writer.put(rounds_.work_time().count());
    writer.put(rounds_.step_time().count());
  }

  void load(Bytes in) override {
    base::ByteReader reader(in, "the state of lasgd");
    expect_version(reader, kStateVersion, "lasgd");
    samples_ = reader.get<std::uint64_t>();
    global_samples_ = reader.get<std::uint64_t>();
    guard_.load(reader);
    ledger_.restore(get_floats(reader));
    if (const auto bits = reader.get<std::uint32_t>(); bits != bits_) {
      throw WireError(
          fmt::format("lasgd: the state is of a run with bits={}, not {}", bits, bits_));
    }
    std::vector<float> reference = get_floats(reader);
    if (differences_) differences_->restore(std::move(reference));
    const auto work = reader.get<double>(), step = reader.get<double>();
    if (!(work >= 0 && std::isfinite(work) && step >= 0 && std::isfinite(step))) {
      throw WireError(
          fmt::format("lasgd: its state is damaged (a round of {} s, a step of {} s)", work, step));
    }
    rounds_.restore_times(Seconds(work), Seconds(step));
    reader.expect_end();
  }

 private:
  // Returns how many steps this worker makes between snapshots: enough to hide the all-reduce.
  std::uint64_t period() const {
    if (asked_period_ != kAuto) return asked_period_;
    const double step = rounds_.step_time().count(), work = rounds_.work_time().count();
    if (step <= 0 || work <= step) return 1;
    const auto hidden = static_cast<std::uint64_t>(std::min(std::ceil(work / step), 1e6));
    // The period must not exceed the bound: workers would wait for a round that no worker begins.
    return asked_bound_ != kAuto ? std::min(hidden, asked_bound_) : hidden;
  }
  // Returns after how many steps without a merge this worker waits for one.
  std::uint64_t bound() const {
    return asked_bound_ != kAuto ? asked_bound_ : std::max(kShortestBound, 4 * period());
  }

  // Returns how much of the pending correction a step merges. If a round takes several steps,
  // momentum would turn a jump of the model into oscillations that last longer than a round; so a
  // correction enters as slowly as momentum lets a gradient do.
  float merged_share(const RunOptions& run) const {
    return period() == 1 ? 1 : std::max(kLeastShare, 1 - run.sgd.momentum);
  }

  void warm_up_step(const ModelStep& step) {
    std::uint64_t samples = step.samples;
    allreduce_sum(step.wire, std::span(&samples, 1));
    samples_ += step.samples;
    global_samples_ += samples;
    last_merge_ = step.step;
    ledger_.merge(step.params);
    const bool is_last = step.step + 1 == synchronous_steps(step.run);
    if (differences_ && is_last) differences_->set_reference(step.params);
  }

  void free_step(const ModelStep& step) {
    if (!rounds_.started()) rounds_.start(samples_, global_samples_);
    bool merged = false;
    timed_codec(step, [&] {
      if (!kernel::all_finite(step.params)) rounds_.report_not_finite();
      merged = ledger_.merge(step.params, merged_share(step.run));
    });
    if (merged) last_merge_ = step.step;
    // A round that begins now averages the model of this step, so the merge comes first.
    rounds_.set_period(period());
    rounds_.stepped(step.own_time, step.samples);
    const bool overdue = step.step - last_merge_ >= bound();
    if (overdue && !rounds_.target_reached()) await_merge(step);
  }

  void await_merge(const ModelStep& step) {
    const Seconds start = step.wire.now();
    while (!ledger_.has_completed_round() && !rounds_.target_reached()) {
      rounds_.wait_for_round();
      rounds_.rethrow_failure();
    }
    ledger_.merge(step.params, merged_share(step.run));
    last_merge_ = step.step;
    const Seconds waited = step.wire.now() - start;
    step.stats.wait += waited;
    blocked_ += waited;
    ++blocked_steps_;
  }

  void remember_samples() {
    samples_ = std::max(samples_, rounds_.samples());
    global_samples_ = global_samples();
  }

  // Returns how many elements are averaged at a time. With a payload scale, the part of the model
  // has as many parts as the whole model.
  static std::size_t part_numel(const Transport& wire) {
    return static_cast<std::size_t>(
        std::max(1.0, static_cast<double>(kPart) / transport::payload_scale(wire)));
  }

  // Executes one round, in the background task.
  void average(Transport& lane) {
    const std::size_t part = part_numel(lane);
    for (std::size_t begin = 0; begin < numel_; begin += part) {
      snapshot_.resize(std::min(part, numel_ - begin));
      ledger_.snapshot(begin, snapshot_);
      if (!average_part(lane, begin)) throw diverged("the mean of all models is not finite");
      ledger_.add(begin, mean_, snapshot_, kGain);
    }
    ledger_.complete_round();
  }

  // Makes mean_ of the snapshots of all ranks. In few bits, snapshot_ becomes what was sent of it.
  bool average_part(Transport& lane, std::size_t begin) {
    if (differences_) {
      mean_.resize(snapshot_.size());
      return differences_->average(lane, begin, snapshot_, mean_);
    }
    mean_ = snapshot_;
    return allreduce_mean(lane, mean_);
  }

  const std::uint64_t asked_period_, asked_bound_;
  const unsigned bits_;
  std::uint64_t last_merge_ = 0;                    // the step of the last merge
  std::uint64_t samples_ = 0, global_samples_ = 0;  // while no rounds are going on
  Seconds blocked_{0};
  std::uint64_t blocked_steps_ = 0;
  GradientGuard guard_;
  MergeLedger ledger_;
  std::size_t numel_ = 0;
  std::optional<DifferenceAverage> differences_;  // if models are averaged in few bits
  std::vector<float> snapshot_, mean_;            // of the rounds
  ProgressRounds rounds_;                         // last: its task uses the members above
};

std::uint64_t steps_or_auto(base::Spec& spec, std::string_view key) {
  return static_cast<std::uint64_t>(spec.integer_or_auto(key, 1, 1'000'000).value_or(kAuto));
}

}  // namespace

std::unique_ptr<Strategy> make_lasgd(base::Spec& spec) {
  const std::uint64_t period = steps_or_auto(spec, "period"), bound = steps_or_auto(spec, "max");
  if (bound != kAuto && bound < period) {
    throw ConfigError(fmt::format(
        "lasgd: max={} is below period={}, so that workers would wait for rounds that no worker "
        "begins; use max={} or more",
        bound, period, period));
  }
  static constexpr std::string_view kBits[] = {"4", "32"};
  const unsigned bits = spec.choice("bits", kBits) == "4" ? 4 : kFullBits;
  return std::make_unique<LaSgd>(period, bound, bits);
}

}  // namespace thinwire::strategy
