// How workers keep their models together. A strategy is one of two kinds: a GradientStrategy makes
// one gradient of the gradients of all workers, a ModelStrategy lets each worker apply its own and
// averages models. The Session calls both; see session.h for the order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/stats.h"
#include "thinwire/transport.h"
#include "thinwire/types.h"

namespace thinwire {

// What the optimizer does with a gradient besides multiplying it by the learning rate:
//   d = g + weight_decay w;  v = momentum v + d;  w -= rate (nesterov ? d + momentum v : v)
struct SgdConfig {
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
};

// How far apart a strategy lets the workers be.
enum class SyncMode {
  synchronous,   // all take the same steps, and their models are the same after each of them
  periodic,      // all take the same steps; their models are the same only after some of them
  asynchronous,  // each takes steps at its own speed, until all together have done enough
};

// The run that the steps are part of. 0: not known.
struct RunOptions {
  std::uint64_t steps = 0;    // of each worker, if all are equally fast
  std::uint64_t samples = 0;  // of all workers together; an asynchronous run ends with them
  double steps_per_epoch = 0;
  // The first steps, in which the learning rate rises: the model changes fast then.
  std::uint64_t warmup_steps = 0;
  SgdConfig sgd = {};
  std::uint64_t seed = 1;  // of all that strategies draw; the same on every rank
  // In simulated time the strategy's own computing is free unless it is charged as measured, which
  // makes the times realistic and no longer the same in every run.
  bool charge_codec = false;
  // In simulated time, the strategy's own computing counts as codec time but takes none: times are
  // as if it were free, and its cost is known.
  bool measure_codec = false;
};

// A number that a strategy reports about itself: over all ranks, the sum of `amount` per `of`.
struct Metric {
  std::string name;
  double amount = 0;
  double of = 1;
  std::string group = {};     // for a metric per tensor: the name that all of them share
  bool is_computing = false;  // seconds of computing, which a part of a model takes fewer of

  double value() const noexcept { return of == 0 ? 0 : amount / of; }
};

// Makes the metrics of one rank those of all. All ranks call it together.
TW_EXPORT void sum_metrics(Transport& wire, std::vector<Metric>& metrics);

// What a planner has to know to predict the cost of a step with a part of the model. Counts are of
// this rank so far.
struct CostProfile {
  // Cost depends on the rows and columns of matrices, so that a part must consist of like ones.
  bool by_matrix_shape = false;
  // Messages are quantized only after a worker has received some in full precision.
  bool quantizes_later = false;
  double quantized_messages = 0;  // then: blocks of quantized messages received
  double blocks = 0;              // of one exchange, divided among the workers, each as a whole
  double exchanges = 0;       // models that this rank sent, or rounds of averaging it took part in
  bool by_message = false;    // exchanges counts messages; all others are of fixed size
  double server_seconds = 0;  // computing of a server on this rank, of all steps
};

// What every call of a strategy may use. The Session owns all of it; the transport is for the
// calling thread.
struct StrategyContext {
  Transport& wire;
  const Layout& layout;  // of the tensors that this strategy object works on
  const RunOptions& run;
  Stats& stats;  // strategies add to codec and wait; the Session does the rest
  const LogSink& log;
  int first_worker = 0;  // ranks below it have no gradient of their own: they only serve

  int workers() const noexcept { return wire.size() - first_worker; }
  bool contributes() const noexcept { return wire.rank() >= first_worker; }
  void warn(std::string_view text) const {
    if (log) log(LogLevel::warning, text);
  }
  void inform(std::string_view text) const {
    if (log) log(LogLevel::info, text);
  }
};

// One gradient to exchange.
struct GradientStep : StrategyContext {
  std::uint64_t step = 0;
  Floats params;    // before the step
  MutFloats grads;  // this worker's own; the mean over all workers afterwards
  // Since the last exchange, without the time spent in it; of several buckets, the share of this
  // one by its elements. 0: not known.
  Seconds own_time{0};
};

// What an exchange leaves in GradientStep::grads. Either dense: every element may have changed. Or
// sparse: all elements are 0 but those at `indices`, so that an optimizer without momentum and
// weight decay need not look at the others.
struct Update {
  bool skip = false;  // a gradient anywhere was not finite: the step must not be applied
  bool sparse = false;
  std::span<const std::uint32_t> indices;  // each once; valid until the next exchange

  static Update skipped() { return {true, false, {}}; }
  static Update dense(bool finite = true) { return {!finite, false, {}}; }
  static Update of(std::span<const std::uint32_t> changed, bool finite = true) {
    return {!finite, true, changed};
  }
};

// One step of this worker that the optimizer has applied (or that was skipped).
struct ModelStep : StrategyContext {
  std::uint64_t step = 0;
  MutFloats params;
  std::uint64_t samples = 0;  // that this worker took in this step
  double learning_rate = 0;   // 0: not known
  Seconds own_time{0};        // since the last step, without the time spent in strategies
};

// What both kinds have in common. A strategy object is used by one thread at a time, by the Session
// of one rank. It is never called in a group of one worker, which is plain SGD.
class TW_EXPORT Strategy {
 public:
  virtual ~Strategy() = default;

  // Returns metrics of this rank so far; the same names in the same order on every rank.
  virtual std::vector<Metric> metrics() const { return {}; }
  // Returns what a planner must know; may be called at any time.
  virtual CostProfile cost_profile() const { return {}; }

  // A checkpoint's part besides the model: save appends it to `out`; load gives it, before begin,
  // to a fresh strategy of the same spec, rank and layout. load throws WireError on foreign bytes.
  virtual void save(Payload& out) const;
  virtual void load(Bytes in);
};

// Makes one gradient of the gradients of all workers, in every step: a synchronous strategy.
class TW_EXPORT GradientStrategy : public Strategy {
 public:
  // Called once, by all ranks together, before the first exchange. Throws ConfigError if the
  // strategy cannot work with this group or layout.
  virtual void begin(const StrategyContext& context) = 0;

  // Called in every step by all ranks together. The mean over all workers replaces step.grads, with
  // the same bits on every rank. If any gradient is not finite, returns Update::skipped() on all
  // ranks, with the state as it was before. If it throws, nothing that was contributed is lost: it
  // is in the state that save() writes.
  virtual Update exchange(const GradientStep& step) = 0;

  // Returns what is left for the optimizer: a strategy may take over some of its work that has to
  // happen before the exchange. The default leaves all of it.
  virtual SgdConfig optimizer_share(const SgdConfig& asked) const { return asked; }

  // Returns how many of the first ranks have no gradient of their own and only serve the others.
  virtual int serving_ranks(int ranks) const;
};

// Lets every worker apply its own gradients and exchanges models.
class TW_EXPORT ModelStrategy : public Strategy {
 public:
  // Never synchronous.
  virtual SyncMode sync_mode() const = 0;

  // Called once, by all ranks together, before the first step. `step` counts from the begin of the
  // run, and may differ between ranks if the strategy is asynchronous.
  virtual void begin(const StrategyContext& context, Floats params, std::uint64_t step) = 0;

  // Returns for how many first steps gradients are averaged as `dense` does: models that have
  // hardly learned do not average well.
  virtual std::uint64_t dense_steps(const RunOptions& run) const;

  // Called after every step of this worker, before the next one begins. May move step.params.
  virtual void after_step(const ModelStep& step) = 0;

  // Called by all ranks together before save(): messages on their way arrive and become part of the
  // state. The default is for strategies that have none.
  virtual void quiesce(const StrategyContext& context, MutFloats params);

  // Called once, by all ranks together, after the last step. All models are the same afterwards.
  virtual void end(const StrategyContext& context, MutFloats params) = 0;

  // Returns how many samples all workers together have trained on; asynchronous strategies only.
  // Every rank sees the same sequence of numbers, though not at the same time.
  virtual std::uint64_t global_samples() const;
};

// Returns how far apart a strategy of either kind lets workers be.
TW_EXPORT SyncMode sync_mode_of(const Strategy& strategy);

// Returns how many of the first ranks only serve; 0 for model strategies.
TW_EXPORT int serving_ranks_of(const Strategy& strategy, int ranks);

// A strategy that this build contains.
struct StrategyInfo {
  std::string_view name;
  std::string_view help;
};

// Returns the strategies of this build. May be called from any thread, as the next two.
TW_EXPORT std::span<const StrategyInfo> strategies();

// Returns the keys that a spec of this strategy may have, with their defaults. Throws ConfigError
// if the name is unknown.
TW_EXPORT std::vector<SpecKey> strategy_keys(std::string_view name);

// Returns the strategy of a spec such as "dense" or "gtopk:density=0.001": a GradientStrategy or a
// ModelStrategy. Throws ConfigError if the name, a key or a value is not known, with the closest
// match and what is allowed.
TW_EXPORT std::unique_ptr<Strategy> make_strategy(std::string_view spec_text);

}  // namespace thinwire
