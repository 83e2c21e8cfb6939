#include "thinwire/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "base/bytes.h"
#include "base/hash.h"
#include "kernel/finite.h"
#include "session/agreement.h"
#include "session/buckets.h"
#include "session/error_fields.h"
#include "session/exchanges.h"
#include "session/sgd.h"
#include "strategy/common/phase_time.h"
#include "thinwire/collective.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

// After this many skipped steps in a row the model itself is not finite.
constexpr std::uint64_t kMostSkippedInARow = 100;

// The version of all that ranks send each other without a version of its own: dense and quantized
// vectors, the progress of rounds, and in which order. To be raised when docs/wire-format.md or a
// collective changes.
constexpr int kWireVersion = 4;
constexpr std::uint32_t kStateVersion = 2;

// Returns a text that is the same for the same tensors.
std::string layout_text(const Layout& layout) {
  std::string all;
  for (const TensorSlot& tensor : layout.tensors) {
    all += fmt::format("{} {} {};", tensor.name, tensor.offset, fmt::join(tensor.shape, "x"));
  }
  return fmt::format("{} tensors (hash {:016x})", layout.tensors.size(),
                     base::hash64(std::as_bytes(std::span(all))));
}

std::unique_ptr<Strategy> make(const SessionOptions& options) {
  return options.make_strategy ? options.make_strategy() : make_strategy(options.strategy);
}

}  // namespace

Session::Session(Transport& wire, const SessionOptions& options)
    : Session(wire, options, make(options)) {}

Session::Session(Transport& wire, const SessionOptions& options, std::unique_ptr<Strategy> strategy)
    : wire_(wire), options_(options), share_(options.run.sgd) {
  strategies_.push_back(std::move(strategy));
  model_strategy_ = dynamic_cast<ModelStrategy*>(strategies_[0].get());
  const auto* gradients = dynamic_cast<const GradientStrategy*>(strategies_[0].get());
  if (model_strategy_ == nullptr && gradients == nullptr) {
    throw std::invalid_argument("Session: neither a GradientStrategy nor a ModelStrategy");
  }
  if (gradients != nullptr && !alone()) {
    first_worker_ = serving_ranks_of(*gradients, wire.size());
    share_ = gradients->optimizer_share(options.run.sgd);
  }
}

Session::~Session() = default;

void Session::require(Phase expected, const char* call) const {
  if (phase_ == expected) return;
  throw std::logic_error(fmt::format(
      "Session::{}: called out of order; the order is begin, then for each step exchange (or "
      "submit and wait_all), apply and finish_step, then end",
      call));
}

StrategyContext Session::context(const Layout& layout) {
  return {wire_, layout, options_.run, stats_, options_.log, first_worker_};
}

Selection Session::selection() const {
  const auto* gradients = dynamic_cast<const GradientStrategy*>(strategies_[0].get());
  return gradients == nullptr ? Selection::bucket : gradients->selection();
}

SyncMode Session::sync_mode() const {
  if (alone() || model_strategy_ == nullptr) return SyncMode::synchronous;
  return model_strategy_->sync_mode();
}

std::uint64_t Session::global_samples() const {
  return model_strategy_ == nullptr ? 0 : model_strategy_->global_samples();
}

// Ranks with other options would average what does not belong together, or wait for messages that
// no rank sends. So would ranks that begin at different steps: most messages do not carry theirs.
void Session::check_agreement(const Layout& layout) {
  const RunOptions& run = options_.run;
  const bool own_steps = sync_mode() == SyncMode::asynchronous;
  const session::NamedValue values[] = {
      {"version of the messages", fmt::format("{}", kWireVersion)},
      {"strategy", strategies_[0]->describe()},
      {"parameters", fmt::format("{}", layout.numel)},
      {"layout", layout_text(layout)},
      {"buckets", fmt::format("{}", buckets_.size())},
      {"seed", fmt::format("{}", run.seed)},
      {"steps", fmt::format("{}", run.steps)},
      {"samples", fmt::format("{}", run.samples)},
      {"steps per epoch", fmt::format("{}", run.steps_per_epoch)},
      {"warm-up steps", fmt::format("{}", run.warmup_steps)},
      {"momentum", fmt::format("{}", run.sgd.momentum)},
      {"weight decay", fmt::format("{}", run.sgd.weight_decay)},
      {"nesterov", fmt::format("{}", run.sgd.nesterov)},
      {"steps between checks", fmt::format("{}", options_.check_every)},
      {"gradients that are not finite", options_.nonfinite == NonFinite::skip ? "skip" : "stop"},
      {"resumed", resumed_ ? "yes" : "no"},
      {"first step", fmt::format("{}", own_steps ? 0 : step_)},
  };
  session::require_agreement(wire_, values);
}

void Session::begin(ModelView model, std::uint64_t step) {
  require(Phase::created, "begin");
  step_ = step;
  const bool divides = model_strategy_ == nullptr && selection() != Selection::global;
  const std::size_t count = divides ? options_.buckets : 1;
  buckets_ = session::split_layout(model.layout, count);
  check_agreement(model.layout);
  if (!resumed_ || sync_mode() == SyncMode::synchronous) {
    broadcast(wire_, std::as_writable_bytes(model.params));
  }
  velocity(model.layout.numel);
  if (!alone()) begin_strategies(model);
  phase_ = Phase::between_steps;
  left_at_ = wire_.now();
}

void Session::begin_strategies(ModelView model) {
  while (strategies_.size() < buckets_.size()) strategies_.push_back(make(options_));
  if (!loaded_.empty() && loaded_.size() != strategies_.size()) {
    throw WireError(fmt::format("session: the state has {} buckets, this model {}", loaded_.size(),
                                strategies_.size()));
  }
  for (std::size_t i = 0; i < loaded_.size(); ++i) strategies_[i]->load(loaded_[i]);
  loaded_.clear();
  if (model_strategy_ != nullptr) {
    dense_steps_ = model_strategy_->dense_steps(options_.run);
    model_strategy_->begin(context(buckets_[0].layout), model.params, step_);
  } else {
    exchanges_ = std::make_unique<Exchanges>(context(buckets_[0].layout), buckets_, strategies_,
                                             selection());
    exchanges_->begin();
    if (resumed_) exchanges_->set_shares(std::move(loaded_shares_));
  }
}

Update Session::exchange(ModelView model) {
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) submit(model, bucket);
  return wait_all(model);
}

Ticket Session::submit(ModelView model, std::size_t bucket) {
  if (phase_ == Phase::between_steps) {
    const Seconds now = wire_.now();
    own_time_ += now - left_at_;
    left_at_ = now;
    phase_ = Phase::submitting;
  }
  require(Phase::submitting, "submit");
  if (bucket >= buckets_.size()) throw std::out_of_range("Session::submit: no such bucket");
  if (exchanges_) exchanges_->submit(bucket, model, step_);
  return {bucket};
}

void Session::wait(Ticket ticket) {
  require(Phase::submitting, "wait");
  if (exchanges_) exchanges_->wait(ticket.bucket);
}

Update Session::wait_all(ModelView model) {
  require(Phase::submitting, "wait_all");
  // Whatever happens: a step whose exchange failed can only be followed by another one.
  phase_ = Phase::between_steps;
  const Update update = exchanges_ ? exchanges_->wait_all(stats_) : keep_gradients(model);
  phase_ = Phase::exchanged;
  left_at_ = wire_.now();
  return finish_exchange(update);
}

// A single worker and model strategies apply their own gradients; of the latter, the first steps
// may be dense. Only a dense step is skipped by all ranks together.
Update Session::keep_gradients(const ModelView& model) {
  bool finite = true;
  if (!alone() && step_ < dense_steps_) {
    const PhaseTimer timer([this] { return wire_.now(); }, stats_.wire);
    finite = allreduce_mean(wire_, model.grads);
  } else {
    strategy::timed_codec(context(model.layout), [&] {
      finite = kernel::all_finite(model.grads);
      if (model_strategy_ == nullptr || alone() || !finite) return;
      model_strategy_->before_step({{context(model.layout)}, step_, model.params, model.grads});
    });
  }
  return Update::dense(finite);
}

Update Session::finish_exchange(Update update) {
  if (!update.skip) {
    skipped_in_a_row_ = 0;
    return update;
  }
  ++stats_.skipped_steps;
  const std::string text = fmt::format(
      "session: a gradient of step {} is not finite; a smaller learning rate or a warm-up may help",
      step_);
  if (options_.nonfinite == NonFinite::stop) {
    throw Error(text,
                session::error_fields(wire_, "exchange", kNoRank, Remedy::tolerate_nonfinite));
  }
  if (++skipped_in_a_row_ == kMostSkippedInARow) {
    throw Error(fmt::format("session: the gradients of {} steps in a row, up to step {}, are not "
                            "finite on rank {}: the model itself is lost; start again with a "
                            "smaller learning rate or a warm-up, or from an earlier checkpoint",
                            kMostSkippedInARow, step_, wire_.rank()),
                session::error_fields(wire_, "exchange"));
  }
  warn_skipped(text);
  return update;
}

// Hundreds of skipped steps often follow each other: the 1st, 2nd, 4th, 8th, ... are reported.
void Session::warn_skipped(const std::string& why) const {
  const bool everywhere = sync_mode() == SyncMode::synchronous;
  if (!options_.log || (everywhere && wire_.rank() != 0)) return;
  if (!std::has_single_bit(stats_.skipped_steps)) return;
  options_.log(LogLevel::warning,
               fmt::format("{}; the step is skipped on {} ({} so far)", why,
                           everywhere ? "all ranks" : fmt::format("rank {}", wire_.rank()),
                           stats_.skipped_steps));
}

MutFloats Session::velocity(std::size_t numel) {
  if (share_.momentum != 0) velocity_.resize(numel, 0.0f);
  return velocity_;
}

double Session::step_scale() const {
  const bool own_step = model_strategy_ != nullptr && !alone() && step_ >= dense_steps_;
  return own_step ? model_strategy_->step_scale() : 1;
}

void Session::apply(ModelView model, const Update& update, float learning_rate) {
  require(Phase::exchanged, "apply");
  if (update.skip) return;
  const double scale = step_scale();
  if (scale != 1) learning_rate = static_cast<float>(scale * static_cast<double>(learning_rate));
  session::apply_sgd(share_, model.params, model.grads, velocity_, update, learning_rate);
}

void Session::finish_step(ModelView model, const StepTaken& taken) {
  require(Phase::exchanged, "finish_step");
  own_time_ += wire_.now() - left_at_;
  if (model_strategy_ != nullptr && !alone()) {
    const Seconds start = wire_.now(), codec = stats_.codec, wait = stats_.wait;
    model_strategy_->after_step({{context(model.layout)},
                                 step_,
                                 model.params,
                                 taken.samples,
                                 taken.learning_rate,
                                 std::exchange(own_time_, Seconds(0))});
    const bool free = wire_.runtime().simulated() && options_.run.codec_time != CodecTime::charged;
    const Seconds computed = free ? Seconds(0) : stats_.codec - codec;
    stats_.wire += wire_.now() - start - computed - (stats_.wait - wait);
  }
  ++step_;
  ++stats_.steps;
  const bool due = options_.check_every > 0 && step_ % options_.check_every == 0;
  if (due && sync_mode() == SyncMode::synchronous) check_replicas(model);
  phase_ = Phase::between_steps;
  left_at_ = wire_.now();
}

void Session::end(ModelView model) {
  require(Phase::between_steps, "end");
  if (model_strategy_ != nullptr && !alone()) {
    const PhaseTimer timer([this] { return wire_.now(); }, stats_.wire);
    model_strategy_->end(context(model.layout), model.params);
  }
  phase_ = Phase::ended;
}

void Session::quiesce(ModelView model) {
  require(Phase::between_steps, "quiesce");
  if (model_strategy_ != nullptr && !alone()) {
    model_strategy_->quiesce(context(model.layout), model.params);
  }
  left_at_ = wire_.now();
}

void Session::save(Payload& out) const {
  base::ByteWriter writer(out);
  writer.put(kStateVersion);
  const std::size_t count = alone() ? 0 : buckets_.size();
  writer.put<std::uint64_t>(count);
  for (std::size_t i = 0; i < count; ++i) {
    Payload state;
    strategies_[i]->save(state);
    writer.put<std::uint64_t>(state.size());
    writer.put(state);
  }
  const std::vector<double> shares = exchanges_ ? exchanges_->shares() : std::vector<double>();
  writer.put<std::uint64_t>(shares.size());
  for (const double share : shares) writer.put(share);
}

void Session::load(Bytes in) {
  require(Phase::created, "load");
  base::ByteReader reader(in, "the state of a session");
  if (const auto version = reader.get<std::uint32_t>(); version != kStateVersion) {
    throw WireError(fmt::format("session: the state has version {}, this build reads {}", version,
                                kStateVersion));
  }
  const auto count = reader.get<std::uint64_t>();
  const std::uint64_t most = alone() ? 0 : model_strategy_ != nullptr ? 1 : options_.buckets;
  if (count > most) {
    throw WireError(
        fmt::format("session: the state has {} buckets, this session at most {}", count, most));
  }
  loaded_.clear();
  for (std::uint64_t i = 0; i < count; ++i) {
    const Bytes state = reader.take(reader.get<std::uint64_t>());
    loaded_.emplace_back(state.begin(), state.end());
  }
  const auto shares = reader.get<std::uint64_t>();
  if (shares > count) {
    throw WireError(
        fmt::format("session: the state has shares of {} buckets, but {} buckets", shares, count));
  }
  loaded_shares_.clear();
  for (std::uint64_t i = 0; i < shares; ++i) loaded_shares_.push_back(reader.get<double>());
  reader.expect_end();
  resumed_ = true;
}

std::vector<Metric> Session::metrics() {
  std::vector<Metric> out = strategies_[0]->metrics();
  for (std::size_t i = 1; i < strategies_.size(); ++i) {
    // Sums over buckets of the metrics that all of them have; those per tensor are kept apart.
    for (const Metric& metric : strategies_[i]->metrics()) {
      const auto same = std::ranges::find_if(out, [&](const Metric& other) {
        return other.name == metric.name && other.group == metric.group;
      });
      if (same == out.end()) {
        out.push_back(metric);
      } else {
        same->amount += metric.amount;
        same->of += metric.of;
      }
    }
  }
  sum_metrics(wire_, out);
  return out;
}

CostProfile Session::cost_profile() const { return strategies_[0]->cost_profile(); }

}  // namespace thinwire
