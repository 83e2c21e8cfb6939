// What a trainer holds: a strategy at work over a transport, the optimizer's share of the work, and
// the checks that keep both right. Every rank has one Session; all ranks call it in the same order:
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

// What happens when a gradient anywhere is not finite. All ranks do it in the same step.
enum class NonFinite { skip, stop };

struct SessionOptions {
  std::string strategy = "dense";  // a spec; ignored if make_strategy is set
  // Makes the strategy, for strategies outside of this library; called once per bucket.
  std::function<std::unique_ptr<Strategy>()> make_strategy;
  // Gradients are exchanged in this many ranges of whole tensors, of about equal length, or fewer
  // if there are fewer tensors. Each has a strategy state of its own. Model strategies have one.
  std::size_t buckets = 1;
  std::uint64_t check_every = 0;  // steps between comparisons of the replicas; 0: never
  NonFinite nonfinite = NonFinite::skip;
  RunOptions run;
  LogSink log;
};

// What the optimizer's step took on this rank.
struct StepTaken {
  std::uint64_t samples = 0;  // examples of this worker
  double learning_rate = 0;   // 0: not known
};

// A range of the flat buffers that is exchanged on its own.
struct Bucket {
  std::size_t begin = 0;
  Layout layout;  // offsets count from begin
};

// A submitted exchange; to be given to wait() once.
struct Ticket {
  std::size_t bucket = 0;
};

// Not thread-safe: one thread calls it, at any time only one call.
class TW_EXPORT Session {
 public:
  // The transport must outlive the session. Throws ConfigError if the strategy's spec is not valid.
  Session(Transport& wire, const SessionOptions& options);
  // The same with a strategy that was built elsewhere: one bucket.
  Session(Transport& wire, const SessionOptions& options, std::unique_ptr<Strategy> strategy);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // --- A run.

  // Called once by all ranks together, before the first step or, after load(), the first step of a
  // resumed run. Rank 0's parameters reach all ranks; but where models differ, each rank resumes
  // with its own. The layout must be the same in all later calls. Throws ConfigError, on all ranks,
  // if their strategies, layouts or options differ, or their steps where workers take them
  // together; the text says which rank has which value.
  void begin(ModelView model, std::uint64_t step);

  // Called after the gradients of this worker were computed. Replaces model.grads by what the
  // optimizer is to apply. The result is valid until the next call of exchange() or submit(); if it
  // says skip, the step must not be applied. Throws Error if gradients are not finite and the
  // options say stop, or too many times in a row.
  Update exchange(ModelView model);

  // The same in parts, which overlaps the exchange with the rest of backward. submit() returns at
  // once and hands the bucket's gradients, which must stay untouched, to a background worker that
  // exchanges buckets in the order of submission: all ranks must submit in the same order. wait()
  // returns when a bucket's gradients are exchanged; wait_all() after all buckets, with the update
  // of the whole model. With one bucket submit() itself exchanges.
  Ticket submit(ModelView model, std::size_t bucket);
  void wait(Ticket ticket);
  Update wait_all(ModelView model);

  // Applies an update to model.params by SGD with this session's share of momentum and weight
  // decay. A caller with an optimizer of its own does that instead, with optimizer_share().
  void apply(ModelView model, const Update& update, float learning_rate);

  // Ends the step, after it was applied or skipped. Model strategies may move model.params.
  void finish_step(ModelView model, const StepTaken& taken = {});

  // Called once by all ranks together after the last step: all replicas are the same afterwards.
  void end(ModelView model);

  // --- Who does what.

  SyncMode sync_mode() const;
  // Ranks below the first worker only serve: they train on nothing and call the session like all
  // others.
  int first_worker() const noexcept { return first_worker_; }
  int workers() const noexcept { return wire_.size() - first_worker_; }
  bool serves() const noexcept { return wire_.rank() < first_worker_; }
  // Asynchronous strategies: see ModelStrategy.
  std::uint64_t global_samples() const;
  // The part of the optimizer's work that is left to do with the gradients that exchange() leaves.
  SgdConfig optimizer_share() const noexcept { return share_; }
  const std::vector<Bucket>& buckets() const noexcept { return buckets_; }  // after begin()

  // --- Checks and figures. All ranks call each of these together.

  // Compares the replicas bit for bit. On a difference throws Error naming the first tensor that
  // differs and the ranks that have another one than rank 0.
  void check_replicas(ModelView model);
  bool replicas_identical(ModelView model);
  // Returns what the strategy says about itself, over all ranks and buckets.
  std::vector<Metric> metrics();

  CostProfile cost_profile() const;  // of this rank; no call by others needed
  std::uint64_t step() const noexcept { return step_; }
  const Stats& stats() const noexcept { return stats_; }
  Transport& wire() noexcept { return wire_; }

  // --- Checkpoints.

  // Called by all ranks together before save(): messages on their way arrive.
  void quiesce(ModelView model);
  // The state of this rank's strategy, appended to `out`.
  void save(Payload& out) const;
  // Before begin(). Throws WireError for bytes that no session of these options wrote.
  void load(Bytes in);
  // The optimizer's velocity for a model of numel parameters, which a checkpoint holds next to the
  // parameters; empty without momentum. With a synchronous strategy it is the same on all ranks.
  MutFloats velocity(std::size_t numel);

 private:
  enum class Phase { created, between_steps, submitting, exchanged, ended };
  class Exchanges;  // one strategy per bucket, and the worker that runs them

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
  std::uint64_t dense_steps_ = 0;  // in which a model strategy's workers average gradients
  std::vector<float> velocity_;    // of the optimizer
  std::vector<Bucket> buckets_;
  std::unique_ptr<Exchanges> exchanges_;
  std::vector<Payload> loaded_;  // states of the buckets, from load() to begin()
  Phase phase_ = Phase::created;
  std::uint64_t step_ = 0;
  std::uint64_t skipped_in_a_row_ = 0;
  bool resumed_ = false;
  Seconds left_at_{0}, own_time_{0};  // when the last hook ended; time outside of hooks
  Stats stats_;
};

}  // namespace thinwire
