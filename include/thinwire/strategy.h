// How workers synchronize their models. There are two kinds of strategies: a GradientStrategy
// combines the gradients of all workers into one; a ModelStrategy lets each worker apply its own
// gradients and averages models. The Session calls both; session.h describes the order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/export.h"
#include "thinwire/stats.h"
#include "thinwire/transport.h"
#include "thinwire/types.h"

namespace thinwire {

// What the optimizer does with a gradient in addition to multiplying it by the learning rate:
//   d = g + weight_decay w;  v = momentum v + d;  w -= rate (nesterov ? d + momentum v : v)
struct SgdConfig {
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
};

// How closely a strategy synchronizes the workers.
enum class SyncMode {
  synchronous,   // all take the same steps; models are equal after each step
  periodic,      // all take the same steps; models are equal only after some of them
  asynchronous,  // each takes steps at its own speed, until all together have used enough samples
};

// What becomes of the time in which a strategy computes, if time is simulated.
enum class CodecTime {
  ignored,   // it takes no time
  measured,  // it takes no time, but is measured and reported as codec time
  charged,   // it takes the measured time: realistic, but no longer the same in every run
};

// The run to which the steps belong. 0 means unknown.
struct RunOptions {
  std::uint64_t steps = 0;    // of each worker, if all have the same speed
  std::uint64_t samples = 0;  // of all workers together; an asynchronous run ends after them
  double steps_per_epoch = 0;
  // The number of first steps, in which the learning rate rises and the model changes fast.
  std::uint64_t warmup_steps = 0;
  SgdConfig sgd = {};
  std::uint64_t seed = 1;  // of all random numbers of strategies; the same on every rank
  CodecTime codec_time = CodecTime::ignored;  // matters in simulated time only
};

// A number that a strategy reports about itself: over all ranks, the sum of `amount` per `of`.
struct Metric {
  std::string name;
  double amount = 0;
  double of = 1;
  std::string group = {};     // for a metric per tensor: the common name of all of them
  bool is_computing = false;  // seconds of computing, which depend on the size of the model

  // Returns amount per `of`; 0 if `of` is 0.
  double value() const noexcept { return of == 0 ? 0 : amount / of; }
};

// Replaces the metrics of each rank by the sums over all ranks. Called by all ranks together;
// throws TransportError if a peer fails.
TW_EXPORT void sum_metrics(Transport& wire, std::vector<Metric>& metrics);

// The facts that a planner needs to predict the cost of a step from a simulation with a part of the
// model. Counts are those of this rank so far.
struct CostProfile {
  // The cost depends on the rows and columns of matrices, so a part must consist of matrices of the
  // same shapes.
  bool by_matrix_shape = false;
  // Messages are quantized only after a worker has received some in full precision.
  bool quantizes_later = false;
  double quantized_messages = 0;  // then: quantized blocks that were received
  double blocks = 0;              // of one exchange; each block belongs to one worker
  double exchanges = 0;     // models that this rank sent, or averaging rounds in which it took part
  bool by_message = false;  // exchanges counts messages; all other messages have a fixed size
  double server_seconds = 0;  // computing time of the server on this rank, over all steps
};

// What every call of a strategy may use. The Session owns all of it. The transport may be used by
// the calling thread only.
struct StrategyContext {
  Transport& wire;
  const Layout& layout;  // of the tensors that this strategy object works on
  const RunOptions& run;
  Stats& stats;  // strategies add to codec and wait; the Session does the rest
  const LogSink& log;
  int first_worker = 0;  // ranks below it have no gradients: they only serve

  // Returns the number of ranks that have gradients.
  int workers() const noexcept { return wire.size() - first_worker; }
  // Returns whether this rank has gradients.
  bool contributes() const noexcept { return wire.rank() >= first_worker; }
  // Passes a warning to the log sink, if there is one. Any thread may call it. Throws what the sink
  // throws.
  void warn(std::string_view text) const {
    if (log) log(LogLevel::warning, text);
  }
  // Passes a note to the log sink, if there is one. Any thread may call it. Throws what the sink
  // throws.
  void inform(std::string_view text) const {
    if (log) log(LogLevel::info, text);
  }
};

// One gradient to exchange.
struct GradientStep : StrategyContext {
  std::uint64_t step = 0;
  Floats params;    // before the step
  MutFloats grads;  // in: of this worker; out: the mean over all workers
  // How many times its own part of the entries a sparse strategy selects in this bucket; the mean
  // over all elements of the model is 1. See Selection::carry.
  double density_share = 1;
};

// How a sparse strategy selects entries if there are several buckets. bucket: the same part of
// each. global: over the whole model, so that there is one bucket only. carry: more in buckets
// whose entries were larger in the last step, so that all buckets have about one threshold, as a
// selection over the whole model has.
enum class Selection { bucket, global, carry };

// Describes GradientStep::grads after an exchange. Dense: every element may have changed. Sparse:
// all elements except those at `indices` are 0, so that an optimizer without momentum and weight
// decay can ignore them.
struct Update {
  bool skip = false;  // a gradient of some rank was not finite: the step must not be applied
  bool sparse = false;
  std::span<const std::uint32_t> indices;  // without duplicates; valid until the next exchange

  // The next three may be called from any thread and throw nothing.

  // Returns an update that is skipped.
  static Update skipped() { return {true, false, {}}; }
  // Returns an update of all elements; it is skipped unless `finite`.
  static Update dense(bool finite = true) { return {!finite, false, {}}; }
  // Returns an update whose elements are 0 except at `changed`; it is skipped unless `finite`. The
  // caller owns the indices and keeps them until the next exchange.
  static Update of(std::span<const std::uint32_t> changed, bool finite = true) {
    return {!finite, true, changed};
  }
};

// One step of this worker that the optimizer has applied (or that was skipped).
struct ModelStep : StrategyContext {
  std::uint64_t step = 0;
  MutFloats params;
  std::uint64_t samples = 0;  // that this worker used in this step
  double learning_rate = 0;   // 0: unknown
  Seconds own_time{0};        // since the last step, without the time in strategies
};

// The interface that both kinds share. A strategy object is used by the Session of one rank, by one
// thread at a time. In a group of one worker, which is plain SGD, its exchanges are never called.
class TW_EXPORT Strategy {
 public:
  // Called by the owner of the strategy, after the last call of its Session, on any thread. A
  // strategy with tasks in the background ends them; errors are discarded.
  virtual ~Strategy() = default;

  // Returns what ranks compare before the first step: they refuse to train together if their texts
  // differ. The default is the spec of a strategy that make_strategy() made, else the name of the
  // class. A class with options of its own appends their values.
  virtual std::string describe() const;

  // Returns metrics of this rank so far; the same names in the same order on every rank. Called
  // between steps, by the thread that uses the strategy; it sends no messages. Throws
  // std::bad_alloc only. The default returns none.
  virtual std::vector<Metric> metrics() const { return {}; }
  // Returns what a planner must know; may be called at any time.
  virtual CostProfile cost_profile() const { return {}; }

  // Appends this strategy's part of a checkpoint to `out`, which the caller owns. Called between
  // steps, and after an exchange that threw. The default appends nothing.
  virtual void save(Payload& out) const;
  // Restores what save() appended. Called before begin(), in a new strategy of the same spec, rank
  // and layout. Throws WireError if the bytes are not such a state. The default accepts no bytes.
  virtual void load(Bytes in);

 private:
  friend TW_EXPORT std::unique_ptr<Strategy> make_strategy(std::string_view spec_text);

  std::string spec_;  // empty unless make_strategy() made this object
};

// Combines the gradients of all workers into one in every step: a synchronous strategy.
class TW_EXPORT GradientStrategy : public Strategy {
 public:
  // Called once, by all ranks together, before the first exchange. Throws ConfigError if the
  // strategy cannot work with this group or layout.
  virtual void begin(const StrategyContext& context) = 0;

  // Called in every step by all ranks together. Replaces step.grads by the mean over all workers,
  // with the same bits on every rank. If any gradient is not finite, it returns Update::skipped()
  // on all ranks and leaves the state unchanged. Throws TransportError if a peer fails and
  // WireError if its message cannot be read. If it throws, no contribution is lost: the
  // gradients are part of the state that save() writes.
  virtual Update exchange(const GradientStep& step) = 0;

  // Called after exchange(), with the same step, if its update is not applied: a gradient of
  // another bucket is not finite, or the exchange of another bucket failed. Adds the update,
  // step.grads, to what this rank holds back, so that no contribution is lost. It must not use the
  // transport. The default does nothing, which suits strategies that hold back nothing.
  virtual void return_update(const GradientStep& step);

  // Returns the part of `asked` that is left for the optimizer. A strategy may take over work that
  // must happen before the exchange, such as momentum. May be called at any time, also before
  // begin(). The default leaves all of it.
  virtual SgdConfig optimizer_share(const SgdConfig& asked) const { return asked; }

  // Returns how entries are divided between several buckets. May be called at any time. The default
  // is bucket.
  virtual Selection selection() const noexcept { return Selection::bucket; }

  // Returns how many of `ranks` ranks, counted from rank 0, have no gradients and only serve the
  // others. May be called at any time, also before begin(). The default is 0.
  virtual int serving_ranks(int ranks) const;
};

// Lets every worker apply its own gradients and exchanges models.
class TW_EXPORT ModelStrategy : public Strategy {
 public:
  // Returns periodic or asynchronous, never synchronous. May be called at any time.
  virtual SyncMode sync_mode() const = 0;

  // Called once, by all ranks together, before the first step. `step` counts from the beginning of
  // the run; it may differ between ranks if the strategy is asynchronous. Throws ConfigError if the
  // strategy cannot work with this group or layout.
  virtual void begin(const StrategyContext& context, Floats params, std::uint64_t step) = 0;

  // Returns the number of first steps in which gradients are averaged as in `dense`, because
  // averaging does not work well for models that have hardly learned. Called once before begin().
  // The default is 0.
  virtual std::uint64_t dense_steps(const RunOptions& run) const;

  // Called before every step of this worker that is not dense, with its own gradient. May shorten
  // it: one worker's batch has more noise than those of all together. The default leaves it as it
  // is.
  virtual void before_step(const GradientStep& step);

  // Returns the factor of the learning rate of this worker's next step. The Session asks for it
  // after before_step() and multiplies the rate by it, so that momentum holds gradients without it
  // and weight decay is scaled as gradients are. The default is 1.
  virtual double step_scale() const;

  // Called after every step of this worker, before the next one begins. May change step.params.
  // Throws TransportError if a peer fails.
  virtual void after_step(const ModelStep& step) = 0;

  // Called by all ranks together before save(): waits until all messages in flight have arrived and
  // are part of the state. Throws TransportError if a peer fails. The default does nothing, for
  // strategies without such messages.
  virtual void quiesce(const StrategyContext& context, MutFloats params);

  // Called once, by all ranks together, after the last step. Afterwards all models are equal.
  // Throws TransportError if a peer fails.
  virtual void end(const StrategyContext& context, MutFloats params) = 0;

  // Returns how many samples all workers together have used. Called between steps, and only for
  // asynchronous strategies. All ranks see the same sequence of numbers, but not at the same time.
  virtual std::uint64_t global_samples() const;
};

// Returns the sync mode of a strategy of either kind. This function and the next may be called from
// any thread.
TW_EXPORT SyncMode sync_mode_of(const Strategy& strategy);

// Returns how many ranks, counted from rank 0, only serve; 0 for model strategies.
TW_EXPORT int serving_ranks_of(const Strategy& strategy, int ranks);

// A strategy that this build contains.
struct StrategyInfo {
  std::string_view name;
  std::string_view help;
};

// Returns the strategies of this build, which live until the process ends. This function and the
// next two may be called from any thread.
TW_EXPORT std::span<const StrategyInfo> strategies();

// Returns the keys that a spec of this strategy may have, with their defaults. Throws ConfigError
// if the name is unknown.
TW_EXPORT std::vector<SpecKey> strategy_keys(std::string_view name);

// Returns the strategy of a spec such as "dense" or "gtopk:density=0.001": a GradientStrategy or a
// ModelStrategy. The caller owns it. Throws ConfigError if the name, a key or a value is unknown;
// the text has the closest match and the allowed values.
TW_EXPORT std::unique_ptr<Strategy> make_strategy(std::string_view spec_text);

}  // namespace thinwire
