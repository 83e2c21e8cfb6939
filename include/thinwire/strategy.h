// How workers keep their models together: one interface, one word per method.
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
  periodic,      // all take the same steps; their models are the same only now and then
  asynchronous,  // each takes steps at its own speed, until all together have done enough
};

// The run that the steps are part of. 0: not known.
struct RunOptions {
  std::uint64_t steps = 0;    // of each worker, if all are equally fast
  std::uint64_t samples = 0;  // of all workers together; a run asynchronously ends with them
  double steps_per_epoch = 0;
  SgdConfig sgd = {};
  std::uint64_t seed = 1;  // of all that strategies draw; the same on every rank
  // In simulated time the strategy's own computing is free unless it is charged as measured, which
  // makes the times realistic and no longer the same in every run.
  bool charge_codec = false;
  // There, it counts as codec time (and not as the wire's) but takes none: times are as if it were
  // free, and what it takes is known.
  bool measure_codec = false;
};

struct StepContext {
  std::uint64_t step = 0;
  ModelView model;
  Transport& wire;
  Stats& stats;
  // Set by after_backward, on all ranks alike, when a gradient of any rank is not finite: the step
  // must not be applied, and the strategy's own state is as it was before.
  bool skip = false;
  RunOptions run = {};
  const LogSink* log = nullptr;  // may be missing
  // What the step took on this rank; only after_step knows.
  std::uint64_t samples = 0;
  double learning_rate = 0;  // 0: not known

  void warn(std::string_view text) const {
    if (log != nullptr && *log) (*log)(LogLevel::warning, text);
  }
};

// A number that a strategy reports about itself: over all ranks, the sum of `amount` per `of`.
struct Metric {
  std::string name;
  double amount = 0;
  double of = 1;
  std::string group = {};  // for a metric per tensor: what all of them show

  double value() const noexcept { return of == 0 ? 0 : amount / of; }
};

// Makes the metrics of one rank those of all, which call this together.
void sum_metrics(Transport& wire, std::vector<Metric>& metrics);

// Hooks run on the training thread, in the same order on every rank (asynchronously, the hooks of a
// step not equally often); only they touch model memory. With one worker every strategy is plain
// SGD, bit for bit.
class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual void begin(StepContext&) {}           // once, before the first step
  virtual void after_backward(StepContext&) {}  // may rewrite model.grads
  virtual void after_step(StepContext&) {}      // may move model.params
  virtual void end(StepContext&) {}             // once; afterwards all replicas are the same
  // Before save(), by all ranks together: what is on its way arrives and becomes part of the state.
  virtual void quiesce(StepContext&) {}

  virtual SyncMode sync_mode() const;
  // At free sync_mode, what all workers together have trained on. Every rank sees the same sequence
  // of numbers, though not at the same time.
  virtual std::uint64_t global_samples() const;

  // Ranks below this one compute no gradients: they only serve the others, whose mean it is that
  // after_backward leaves. Their model is the same as everybody's.
  virtual int first_worker(int ranks) const;

  // What is left for the optimizer to do after the exchange: a strategy may take over some of it,
  // for it has to happen before the selection. With one worker it takes nothing.
  virtual SgdConfig optimizer_share(const SgdConfig& asked, int workers) const;

  // Figures of this rank so far; the same names in the same order on every rank.
  virtual std::vector<Metric> metrics() const;

  // What a checkpoint must hold beside the model: appended to `out`, and given back to a fresh
  // strategy of the same spec, rank and layout. load throws WireError on foreign bytes.
  virtual void save(Payload& out) const;
  virtual void load(Bytes in);
};

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

// Returns the strategy of a spec such as "dense" or "gtopk:density=0.001". Throws ConfigError if
// the name, a key or a value is not known, with the closest match and what is allowed.
TW_EXPORT std::unique_ptr<Strategy> make_strategy(std::string_view spec_text);

}  // namespace thinwire
