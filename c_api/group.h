// A rank's membership in a group, from tw_group_join() to tw_group_close().
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "c_api/log_messages.h"
#include "thinwire/launch.h"

namespace thinwire::c_api {

// Thread-safe. A thread of its own runs thinwire::run_workers(), whose worker only waits until this
// rank leaves; meanwhile sessions use the transport.
class Group {
 public:
  // Joins the group, calls the worker once, and leaves; throws as run_workers() does.
  using Run = std::function<void(const JoinOptions&, const Worker&)>;

  // Starts to join over gloo. Failures are reported by wait(). Throws ConfigError if this build
  // does not have it.
  explicit Group(const JoinOptions& options);
  // The same by another function, for tests. It is called on the thread of this group.
  Group(const JoinOptions& options, Run join);
  // If this rank has not left, the other ranks learn that it failed. No session may exist any more.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Waits until joining or leaving is complete, as CallQueue::wait() does. Throws what made it
  // fail, in every call.
  bool wait(double seconds);
  // Throws UsageError unless this rank has joined and no session is open.
  void leave();
  void abort(const std::string& reason);

  // Returns a new lane for a session. A session that begins makes lanes, too, from its own lane.
  // Lanes of the ranks belong together by the order in which they are made, so only one session may
  // begin at a time, and none may be opened meanwhile. Throws UsageError then, and if this rank is
  // not in the group.
  std::unique_ptr<Transport> make_lane();
  // Sessions report that they exist, and from when to when they begin. session_begins() throws
  // UsageError while another one does.
  void session_opened();
  void session_begins();
  void session_began();
  void session_closed();

  LogMessages& log() noexcept { return *log_; }
  LogSink log_sink() const;

 private:
  enum class Stage { joining, joined, leaving, left, failed };
  // What the thread uses; it may outlive this object by the rest of the time for joining.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    Stage stage = Stage::joining;
    bool given_up = false;  // the group is closed without leaving it
    std::string reason;
    Transport* wire = nullptr;
    std::unique_ptr<Transport> handle;  // a second one, for abort() from any thread
    std::exception_ptr failure;
  };
  static void run(const std::shared_ptr<Shared>& shared, const JoinOptions& options,
                  const Run& join);
  static void stay(Shared& shared, Transport& wire);
  void require_no_begin() const;

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<LogMessages> log_;
  int sessions_ = 0;        // guarded by shared_->mutex
  bool beginning_ = false;  // a session begins; guarded by shared_->mutex
  std::thread thread_;
};

}  // namespace thinwire::c_api
