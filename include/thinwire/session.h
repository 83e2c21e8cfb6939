// What a trainer holds: a strategy at work over a transport, with the checks that keep it honest.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "thinwire/strategy.h"
#include "thinwire/types.h"

namespace thinwire {

// What happens when a gradient anywhere is not finite. All ranks do it in the same step.
enum class NonFinite { skip, stop };

struct SessionOptions {
  std::string strategy = "dense";
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

// One per rank; its hooks are called by all ranks in the same order.
class Session {
 public:
  // ConfigError if the strategy's spec is not valid.
  Session(Transport& wire, const SessionOptions& options);

  // Before the first step, or the first after a resume (load() first). Rank 0's parameters reach
  // all ranks; but where models drift apart, each rank resumes with its own. ConfigError, on all
  // ranks, if their options differ, or their steps where workers take them together.
  void begin(ModelView model, std::uint64_t step);
  // After gradients were computed. False: this step must not be applied.
  [[nodiscard]] bool after_backward(ModelView model);
  // After the optimizer moved the parameters (or the step was skipped). Ends the step.
  void after_step(ModelView model, const StepTaken& taken = {});
  // After the last step: all replicas are the same afterwards.
  void end(ModelView model);

  // Compares the replicas bit for bit. On a difference throws Error naming the first tensor that
  // differs and the ranks that have another one than rank 0.
  void check_replicas(ModelView model);
  bool replicas_identical(ModelView model);

  // A single worker is always in synchronous with itself.
  SyncMode sync_mode() const {
    return wire_.size() == 1 ? SyncMode::synchronous : strategy_->sync_mode();
  }
  // At free pace: see Strategy.
  std::uint64_t global_samples() const { return strategy_->global_samples(); }

  // Ranks below it only serve: they train on nothing, and call the hooks like everybody else.
  int first_worker() const { return strategy_->first_worker(wire_.size()); }

  // What the optimizer has to do with the gradients that after_backward leaves.
  SgdConfig optimizer_share() const {
    return strategy_->optimizer_share(options_.run.sgd, wire_.size());
  }
  // What the strategy says about itself, over all ranks, which call this together.
  std::vector<Metric> metrics();

  std::uint64_t step() const noexcept { return step_; }
  const Stats& stats() const noexcept { return stats_; }
  Transport& wire() noexcept { return wire_; }

  // The strategy's own state, for a checkpoint of this rank. All ranks quiesce() together before.
  void quiesce(ModelView model);
  void save(Payload& out) const { strategy_->save(out); }
  void load(Bytes in);

 private:
  StepContext context(ModelView model) {
    return {step_, model, wire_, stats_, false, options_.run, &options_.log, 0, 0};
  }
  void warn_skipped(const std::string& why) const;

  Transport& wire_;
  SessionOptions options_;
  std::unique_ptr<Strategy> strategy_;
  std::uint64_t step_ = 0;
  std::uint64_t skipped_in_a_row_ = 0;
  bool resumed_ = false;
  Stats stats_;
};

}  // namespace thinwire
