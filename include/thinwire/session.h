// The object that a trainer uses: it runs a strategy over a transport, applies the optimizer's
// share of the work, and checks both. Every rank has one Session; all ranks call it in the same
// order:
//
//   begin -> { exchange -> apply -> finish_step } for each step -> end
//
// where exchange may be split: submit for each bucket, then wait_all. Calls out of order throw
// std::logic_error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/export.h"
#include "thinwire/stats.h"
#include "thinwire/strategy.h"
#include "thinwire/transport.h"
#include "thinwire/types.h"

namespace thinwire {

// What happens when a gradient of any rank is not finite: all ranks skip the step, or all stop with
// an error in that step.
enum class NonFinite { skip, stop };

// The options of a session. All but log and make_strategy must be the same on all ranks.
struct SessionOptions {
  std::string strategy = "dense";  // a spec; ignored if make_strategy is set
  // Makes the strategy, for strategies outside of this library; called once per bucket.
  std::function<std::unique_ptr<Strategy>()> make_strategy;
  // The number of ranges in which gradients are exchanged. Each range consists of whole tensors;
  // all have about equal length and a strategy state of their own. There are fewer if there are
  // fewer tensors, and only one with a model strategy or with Selection::global.
  std::size_t buckets = 1;
  std::uint64_t check_every = 0;  // steps between comparisons of the replicas; 0: never
  NonFinite nonfinite = NonFinite::skip;
  RunOptions run;
  LogSink log;  // receives warnings and notes of the session and its strategies; may be empty
};

// What this rank used for the step.
struct StepTaken {
  std::uint64_t samples = 0;  // examples of this worker in this step
  double learning_rate = 0;   // 0: unknown
};

// A range of the flat buffers that is exchanged on its own.
struct Bucket {
  std::size_t begin = 0;
  Layout layout;  // offsets count from begin
};

// A submitted exchange, which the caller passes to wait() once.
struct Ticket {
  std::size_t bucket = 0;
};

// One thread at a time may call it, on the lane `wire`. The caller owns the memory of the models
// that it passes.
//
// Errors: unless its comment says otherwise, a function that all ranks call together throws
// TransportError if a peer fails, WireError if a peer sends a message that does not belong to the
// call, and std::logic_error if it is called out of order. After a TransportError or WireError the
// session cannot go on; the state that save() then writes still has every contribution.
class TW_EXPORT Session {
 public:
  // Makes the strategy of options.strategy or options.make_strategy. May be called by one rank
  // alone. The transport must outlive the session. Throws ConfigError if the strategy's spec is not
  // valid.
  Session(Transport& wire, const SessionOptions& options);
  // The same with a strategy that the caller made and the session then owns; options.strategy and
  // options.make_strategy are ignored. options.buckets must be 1, because the strategies of other
  // buckets would be made from the options. Throws std::invalid_argument if the strategy is neither
  // a GradientStrategy nor a ModelStrategy.
  Session(Transport& wire, const SessionOptions& options, std::unique_ptr<Strategy> strategy);
  // Waits for the exchange that is running, and discards those that have not begun and all errors.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // --- A run.

  // Called once by all ranks together, before the first step. Copies the parameters of rank 0 to
  // all ranks. In a resumed run it is called after load(), and `step` is the next step; if the
  // strategy lets models differ, each rank keeps its own parameters. The layout must be the same in
  // all later calls. Throws ConfigError, on all ranks, if their strategies, layouts or options
  // differ or, unless the strategy is asynchronous, if their steps differ; the text says which rank
  // has which value.
  void begin(ModelView model, std::uint64_t step);

  // Called by all ranks after the gradients of this worker were computed. Replaces model.grads by
  // the gradients that the optimizer is to apply. The result is valid until the next call of
  // exchange() or submit(); if its `skip` is set, the step must not be applied. Throws Error if
  // gradients are not finite and the options say stop, or if they were not finite in too many steps
  // in a row; throws TransportError if a peer fails.
  Update exchange(ModelView model);

  // The next three do the same in parts, so that the exchange overlaps with the rest of the
  // backward pass.

  // Called by all ranks once for each bucket, in the same order, when the gradients of the bucket
  // were computed. Returns at once; a background worker exchanges the buckets in the order of
  // submission. With one bucket, submit() itself exchanges, and throws what that throws. The caller
  // must not touch the gradients of a submitted bucket until wait() for it has returned. Throws
  // std::out_of_range if there is no such bucket, and std::logic_error if it was submitted already.
  Ticket submit(ModelView model, std::size_t bucket);
  // Waits until the bucket was exchanged. One rank alone may call it. Throws what the exchange
  // threw.
  void wait(Ticket ticket);
  // Called by all ranks after all buckets were submitted. Waits for all of them and returns the
  // update of the whole model, as exchange() does. Throws what an exchange threw, else as
  // exchange(); afterwards the next call is submit() or exchange() of the same step.
  Update wait_all(ModelView model);

  // Applies an update to model.params by SGD with this session's share of momentum and weight
  // decay, at step_scale() times the learning rate; does nothing if update.skip is set. Called
  // after exchange() or wait_all(), with its result. A caller that has an optimizer of its own uses
  // that instead, with the settings of optimizer_share() and the rate multiplied in the same way.
  // Sends no messages; throws std::logic_error only.
  void apply(ModelView model, const Update& update, float learning_rate);

  // Called by all ranks at the end of the step, after it was applied or skipped; each rank calls it
  // at its own time if the strategy is asynchronous. A model strategy may change model.params.
  // Every options.check_every steps it compares the replicas and throws Error if they differ, as
  // check_replicas() does. Throws TransportError if a peer fails, and std::logic_error before the
  // exchange.
  void finish_step(ModelView model, const StepTaken& taken = {});

  // Called once by all ranks together after the last step. Afterwards all replicas are equal.
  // Throws TransportError if a peer fails, and std::logic_error within a step.
  void end(ModelView model);

  // --- Roles. One rank alone may call these functions at any time.

  // Returns the mode of the strategy; a group of one worker is always synchronous.
  SyncMode sync_mode() const;
  // Returns the first rank that has gradients. Ranks below it only serve: they have no gradients,
  // and call the session as all other ranks do.
  int first_worker() const noexcept { return first_worker_; }
  // Returns the number of ranks that have gradients.
  int workers() const noexcept { return wire_.size() - first_worker_; }
  // Returns whether this rank only serves.
  bool serves() const noexcept { return wire_.rank() < first_worker_; }
  // Returns ModelStrategy::global_samples(); 0 for a gradient strategy.
  std::uint64_t global_samples() const;
  // Returns the part of the optimizer's work that is still to be done with the gradients that
  // exchange() returns.
  SgdConfig optimizer_share() const noexcept { return share_; }
  // Returns the factor by which a model strategy changes the learning rate of this step; called
  // after exchange(). It is 1 for all other strategies.
  double step_scale() const;
  // Returns the buckets, which the session owns; empty before begin().
  const std::vector<Bucket>& buckets() const noexcept { return buckets_; }

  // --- Checks and metrics. All ranks call the first three together, between other calls.

  // Compares the replicas bit for bit. If they differ, throws Error, which names the first tensor
  // that differs and the ranks whose tensor is not that of rank 0.
  void check_replicas(ModelView model);
  // Returns, on all ranks, whether the replicas are equal bit for bit.
  bool replicas_identical(ModelView model);
  // Returns the metrics of the strategy, summed over all ranks and buckets.
  std::vector<Metric> metrics();

  // One rank alone may call the next four at any time. They throw nothing.

  // Returns the cost profile of this rank's strategy.
  CostProfile cost_profile() const;
  // Returns the step that is going on or comes next, counted from the beginning of the run.
  std::uint64_t step() const noexcept { return step_; }
  // Returns the statistics of this rank, which the session owns and each of its calls changes.
  const Stats& stats() const noexcept { return stats_; }
  // Returns the transport that was passed to the constructor.
  Transport& wire() noexcept { return wire_; }

  // --- Checkpoints.

  // Called by all ranks together between two steps, before save(): waits until all messages in
  // flight have arrived. A model strategy may change model.params. Throws TransportError if a peer
  // fails, and std::logic_error within a step.
  void quiesce(ModelView model);
  // Appends the state of this rank's strategy to `out`, which the caller owns. Called between two
  // steps, after quiesce(), or after an error; one rank alone may call it. Throws what the
  // strategy's save() throws; those of this library throw std::bad_alloc only.
  void save(Payload& out) const;
  // Restores the state that save() wrote. Called before begin(); one rank alone may call it, but
  // begin() requires that all ranks have resumed or none. Throws WireError if the bytes were not
  // written by a session with these options.
  void load(Bytes in);
  // Returns the optimizer's velocity for a model of numel parameters, which belongs into a
  // checkpoint together with the parameters; empty without momentum. The session owns it; it is
  // valid as long as numel stays the same. With a synchronous strategy it is the same on all ranks.
  // One rank alone may call it, before begin() to restore the velocity. Throws std::bad_alloc only.
  MutFloats velocity(std::size_t numel);

 private:
  enum class Phase { created, between_steps, submitting, exchanged, ended };
  class Exchanges;  // runs the strategies of the buckets in the background

  void require(Phase expected, const char* call) const;
  Selection selection() const;
  StrategyContext context(const Layout& layout);
  void check_agreement(const Layout& layout);
  void begin_strategies(ModelView model);
  Update keep_gradients(const ModelView& model);
  Update finish_exchange(Update update);
  void warn_skipped(const std::string& why) const;
  bool alone() const noexcept { return wire_.size() == 1; }

  Transport& wire_;
  SessionOptions options_;
  std::vector<std::unique_ptr<Strategy>> strategies_;  // one per bucket
  ModelStrategy* model_strategy_ = nullptr;            // strategies_[0], if it is one
  int first_worker_ = 0;
  SgdConfig share_;
  std::uint64_t dense_steps_ = 0;  // first steps, in which a model strategy averages gradients
  std::vector<float> velocity_;    // the optimizer's momentum
  std::vector<Bucket> buckets_;
  std::unique_ptr<Exchanges> exchanges_;
  std::vector<Payload> loaded_;        // states of the buckets, from load() to begin()
  std::vector<double> loaded_shares_;  // of the buckets with Selection::carry, as above
  Phase phase_ = Phase::created;
  std::uint64_t step_ = 0;
  std::uint64_t skipped_in_a_row_ = 0;
  bool resumed_ = false;
  Seconds left_at_{0}, own_time_{0};  // when the last call ended; time between calls
  Stats stats_;
};

}  // namespace thinwire
