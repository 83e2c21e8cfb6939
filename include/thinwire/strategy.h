// How workers keep their models together: one interface, one word per method.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "thinwire/model.h"
#include "thinwire/registry.h"
#include "thinwire/stats.h"
#include "thinwire/transport.h"

namespace thinwire {

struct StepContext {
  std::uint64_t step = 0;
  ModelView model;
  Transport& wire;
  Stats& stats;
  // Set by after_backward, on all ranks alike, when a gradient of any rank is not finite: the step
  // must not be applied, and the strategy's own state is as it was before.
  bool skip = false;
};

// Hooks run on the training thread, in the same order on every rank; only they touch model memory.
// With one worker every strategy is plain SGD, bit for bit.
class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual void begin(StepContext&) {}           // once, before the first step
  virtual void after_backward(StepContext&) {}  // may rewrite model.grads
  virtual void after_step(StepContext&) {}      // may move model.params
  virtual void end(StepContext&) {}             // once; afterwards all replicas are the same

  // What a checkpoint must hold beside the model: appended to `out`, and given back to a fresh
  // strategy of the same spec, rank and layout. load throws WireError on foreign bytes.
  virtual void save(Payload& out) const;
  virtual void load(Bytes in);
};

// The strategies of this build.
std::span<const Entry<Strategy>> strategies();

// The strategy of a spec such as "dense" or "gtopk:density=0.001". ConfigError if the name, a key
// or a value is not known, with the closest match and what is allowed.
std::unique_ptr<Strategy> make_strategy(std::string_view spec_text);

}  // namespace thinwire
