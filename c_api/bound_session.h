// A Session whose calls are executed by a thread of the library, as thinwire_c.h describes.
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "c_api/call_queue.h"
#include "c_api/group.h"
#include "c_api/json_options.h"

namespace thinwire::c_api {

// Thread-safe. Calls out of order throw UsageError. After an operation has failed, every call that
// would start another one throws the same error. A session has a lane and a thread of its own, so
// that the operations of several sessions of a group can go on at the same time.
class BoundSession {
 public:
  BoundSession(std::shared_ptr<Group> group, const OpenOptions& options);
  ~BoundSession();
  BoundSession(const BoundSession&) = delete;
  BoundSession& operator=(const BoundSession&) = delete;

  void begin(MutFloats params, std::uint64_t step);
  void submit(std::size_t bucket, MutFloats params, MutFloats grads);
  void finish_step(MutFloats params, const StepTaken& taken);
  void end(MutFloats params);
  void quiesce(MutFloats params);
  void sum_metrics();
  // Waits for what was started, as CallQueue::wait() does. `skipped` is that of the last exchange.
  bool wait(double seconds, bool& skipped);

  Payload save();
  void load(Bytes state);
  nlohmann::json info();
  nlohmann::json stats();

  const std::shared_ptr<Group>& group() const noexcept { return group_; }

 private:
  enum class Stage { opened, between_steps, submitting, exchanged, ended };

  void require_no_failure() const;
  void require(Stage expected, const char* call) const;
  void require_idle(const char* call) const;
  void require_params(MutFloats params, const char* call) const;
  void note_end_of_begin();
  ModelView view(MutFloats params, MutFloats grads = {}) const { return {params, grads, layout_}; }

  const std::shared_ptr<Group> group_;
  const Layout layout_;
  const RunOptions run_;
  const bool models_;  // the strategy exchanges models, not gradients
  const std::unique_ptr<Transport> wire_;
  mutable std::mutex mutex_;
  Stage stage_ = Stage::opened;
  std::vector<bool> submitted_;  // whether a bucket was submitted in this step
  std::size_t missing_ = 0;      // buckets of this step that are not submitted
  bool skipped_ = false;
  std::vector<Metric> metrics_;
  bool begins_ = false;  // begin() was called, and wait() has not returned its result
  std::unique_ptr<Session> session_;
  const bool checks_replicas_;
  std::optional<CallQueue> calls_{std::in_place};  // last: its calls use the members above
};

}  // namespace thinwire::c_api
