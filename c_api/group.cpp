#include "c_api/group.h"

#include "c_api/call_queue.h"
#include "c_api/fork.h"
#include "c_api/usage_error.h"
#include "thinwire/error.h"

namespace thinwire::c_api {

namespace {

void join_gloo(const JoinOptions& options, const Worker& worker) {
  const MasterAddress address(options);
  run_workers("gloo", options, worker);
}

// Throws ConfigError if this build does not have gloo.
const JoinOptions& require_gloo(const JoinOptions& options) {
  find_backend("gloo");
  return options;
}

}  // namespace

Group::Group(const JoinOptions& options) : Group(require_gloo(options), &join_gloo) {}

Group::Group(const JoinOptions& options, Run join)
    : shared_(std::make_shared<Shared>()), log_(std::make_shared<LogMessages>()) {
  JoinOptions own = options;
  own.log = log_sink();
  thread_ =
      std::thread([shared = shared_, own, join = std::move(join)] { run(shared, own, join); });
}

void Group::run(const std::shared_ptr<Shared>& shared, const JoinOptions& options,
                const Run& join) {
  std::exception_ptr failure;
  try {
    join(options, [&](Transport& wire) { stay(*shared, wire); });
  } catch (...) {
    failure = std::current_exception();
  }
  std::unique_ptr<Transport> handle;  // destroyed last, without the mutex
  const std::lock_guard lock(shared->mutex);
  if (!failure && shared->given_up) failure = std::make_exception_ptr(Error(shared->reason));
  shared->wire = nullptr;
  handle = std::move(shared->handle);
  shared->stage = failure ? Stage::failed : Stage::left;
  shared->failure = failure;
  shared->changed.notify_all();
}

void Group::stay(Shared& shared, Transport& wire) {
  std::unique_lock lock(shared.mutex);
  if (shared.given_up) throw Error(shared.reason);
  shared.wire = &wire;
  shared.handle = wire.clone_handle();
  shared.stage = Stage::joined;
  shared.changed.notify_all();
  shared.changed.wait(lock, [&] { return shared.given_up || shared.stage == Stage::leaving; });
  if (shared.given_up) throw Error(shared.reason);
}

Group::~Group() {
  abort("the program closed the group without leaving it");
  bool joining = false;
  {
    const std::lock_guard lock(shared_->mutex);
    joining = shared_->stage == Stage::joining;
    shared_->given_up = true;
    shared_->changed.notify_all();
  }
  // Joining cannot be interrupted, and the caller should not have to wait for its deadline.
  joining ? thread_.detach() : thread_.join();
}

bool Group::wait(double seconds) {
  std::unique_lock lock(shared_->mutex);
  const bool complete = wait_limited(shared_->changed, lock, seconds, [this] {
    return shared_->stage != Stage::joining && shared_->stage != Stage::leaving;
  });
  if (complete && shared_->failure) std::rethrow_exception(shared_->failure);
  return complete;
}

void Group::leave() {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->failure) std::rethrow_exception(shared_->failure);
  if (shared_->stage != Stage::joined) {
    throw UsageError("group: leave is called once, after the join is complete");
  }
  if (sessions_ > 0) throw UsageError("group: sessions are still open; close them first");
  shared_->stage = Stage::leaving;
  shared_->changed.notify_all();
}

void Group::abort(const std::string& reason) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->reason.empty()) shared_->reason = reason;
  // Joining cannot be interrupted; the thread gives up when it is complete. A leave ends early.
  if (shared_->stage == Stage::joining || shared_->stage == Stage::leaving) {
    shared_->given_up = true;
  }
  if (shared_->handle) shared_->handle->abort(reason);
}

void Group::require_no_begin() const {
  if (!beginning_) return;
  throw UsageError("group: another session of the group begins; wait for it first");
}

std::unique_ptr<Transport> Group::make_lane() {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->failure) std::rethrow_exception(shared_->failure);
  if (shared_->stage != Stage::joined) {
    throw UsageError("group: this rank is not in the group; wait until the join is complete");
  }
  require_no_begin();
  return shared_->wire->lane();
}

void Group::session_opened() {
  const std::lock_guard lock(shared_->mutex);
  ++sessions_;
}

void Group::session_begins() {
  const std::lock_guard lock(shared_->mutex);
  require_no_begin();
  beginning_ = true;
}

void Group::session_began() {
  const std::lock_guard lock(shared_->mutex);
  beginning_ = false;
}

void Group::session_closed() {
  const std::lock_guard lock(shared_->mutex);
  --sessions_;
}

LogSink Group::log_sink() const {
  return [log = log_](LogLevel level, std::string_view text) { log->add(level, text); };
}

}  // namespace thinwire::c_api
