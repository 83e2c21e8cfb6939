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

#include "thinwire/strategy.h"

namespace thinwire {

// What happens when a gradient of any rank is not finite: all ranks skip the step, or all stop with
// an error in that step.
enum class NonFinite { skip, stop };

struct SessionOptions {
  std::string strategy = "dense";  // a spec; ignored if make_strategy is set
  // Makes the strategy, for strategies outside of this library; called once per bucket.
  std::function<std::unique_ptr<Strategy>()> make_strategy;
  // The number of ranges in which gradients are exchanged. Each range consists of whole tensors;
  // all have about equal length and a strategy state of their own. There are fewer if there are
  // fewer tensors, and only one with a model strategy.
  std::size_t buckets = 1;
  std::uint64_t check_every = 0;  // steps between comparisons of the replicas; 0: never
  NonFinite nonfinite = NonFinite::skip;
  RunOptions run;
  LogSink log;
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

// Not thread-safe: one thread at a time may call it.
class TW_EXPORT Session {
 public:
  // The transport must outlive the session. Throws ConfigError if the strategy's spec is not valid.
  Session(Transport& wire, const SessionOptions& options);
  // Uses a strategy that the caller made; there is one bucket. options.strategy is ignored.
  Session(Transport& wire, const SessionOptions& options, std::unique_ptr<Strategy> strategy);
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

  // Do the same in parts, so that the exchange overlaps with the rest of the backward pass.
  // submit() returns at once; a background worker exchanges the buckets in the order of submission,
  // which must be the same on all ranks. The caller must not touch the gradients of a submitted
  // bucket until wait() for it has returned. wait_all() waits for all buckets and returns the
  // update of the whole model. With one bucket, submit() itself exchanges. wait() and wait_all()
  // throw what the exchange threw.
  Ticket submit(ModelView model, std::size_t bucket);
  void wait(Ticket ticket);
  Update wait_all(ModelView model);

  // Applies an update to model.params by SGD with this session's share of momentum and weight
  // decay. A caller that has an optimizer of its own uses it instead, with the settings of
  // optimizer_share().
  void apply(ModelView model, const Update& update, float learning_rate);

  // Ends the step, after it was applied or skipped. A model strategy may change model.params.
  // Compares the replicas every options.check_every steps.
  void finish_step(ModelView model, const StepTaken& taken = {});

  // Called once by all ranks together after the last step. Afterwards all replicas are equal.
  void end(ModelView model);

  // --- Roles.

  SyncMode sync_mode() const;
  // Ranks below the first worker only serve: they have no gradients, and call the session as all
  // other ranks do.
  int first_worker() const noexcept { return first_worker_; }
  int workers() const noexcept { return wire_.size() - first_worker_; }
  bool serves() const noexcept { return wire_.rank() < first_worker_; }
  // See ModelStrategy::global_samples(). Only for asynchronous strategies.
  std::uint64_t global_samples() const;
  // Returns the part of the optimizer's work that is still to be done with the gradients that
  // exchange() returns.
  SgdConfig optimizer_share() const noexcept { return share_; }
  const std::vector<Bucket>& buckets() const noexcept { return buckets_; }  // valid after begin()

  // --- Checks and metrics. All ranks call each of these together.

  // Compares the replicas bit for bit. If they differ, throws Error, which names the first tensor
  // that differs and the ranks whose tensor is not that of rank 0.
  void check_replicas(ModelView model);
  bool replicas_identical(ModelView model);
  // Returns the metrics of the strategy, summed over all ranks and buckets.
  std::vector<Metric> metrics();

  CostProfile cost_profile() const;  // of this rank; one rank alone may call it
  std::uint64_t step() const noexcept { return step_; }
  const Stats& stats() const noexcept { return stats_; }
  Transport& wire() noexcept { return wire_; }

  // --- Checkpoints.

  // Called by all ranks together before save(): waits until all messages in flight have arrived.
  void quiesce(ModelView model);
  // Appends the state of this rank's strategy to `out`.
  void save(Payload& out) const;
  // Restores the state that save() wrote. Called before begin(). Throws WireError if the bytes were
  // not written by a session with these options.
  void load(Bytes in);
  // Returns the optimizer's velocity for a model of numel parameters, which belongs into a
  // checkpoint together with the parameters; empty without momentum. The session owns it. With a
  // synchronous strategy it is the same on all ranks.
  MutFloats velocity(std::size_t numel);

 private:
  enum class Phase { created, between_steps, submitting, exchanged, ended };
  class Exchanges;  // runs the strategies of the buckets in the background

  void require(Phase expected, const char* call) const;
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
  std::vector<Payload> loaded_;  // states of the buckets, from load() to begin()
  Phase phase_ = Phase::created;
  std::uint64_t step_ = 0;
  std::uint64_t skipped_in_a_row_ = 0;
  bool resumed_ = false;
  Seconds left_at_{0}, own_time_{0};  // when the last call ended; time between calls
  Stats stats_;
};

}  // namespace thinwire
