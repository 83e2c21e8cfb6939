// A program that a test starts, watches and ends. Nothing it started outlives the test.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "testing/split_words.h"
#include "thinwire/types.h"

namespace thinwire::test {

// The program runs in a session of its own, so that it and all it starts (mpirun puts each rank
// into a process group of its own) can be found and ended together. If the thread that
// started it ends, or the test is killed, the program is killed too. Used by one thread.
class ChildProcess {
 public:
  // `command` is a path or a name to be found in PATH, and its arguments; `environment` has
  // "NAME=value" lines that are added to the caller's. Throws if the program cannot be started.
  explicit ChildProcess(const Words& command, const Words& environment = {});
  // Ends the program and everything it started that is still running.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const noexcept { return pid_; }

  // Waits for the end of the program. False if it still runs after `patience`.
  bool wait(Seconds patience);
  // Waits until the merged output contains `text`. False if it does not by then, or ended without.
  bool wait_for_output(std::string_view text, Seconds patience);
  // Waits until nothing that the program started runs any more. False if something still does.
  bool wait_for_descendants(Seconds patience);

  // To the program alone; without effect once it has ended.
  void signal(int number);
  // SIGKILL to the program and everything it started.
  void kill_all();
  // Processes of the program's session that still run, the program itself included.
  std::vector<pid_t> running() const;

  // How it ended; empty while it runs, and for the way it did not end.
  std::optional<int> exit_code() const;
  std::optional<int> ended_by_signal() const;
  // For failure messages: "exit code 1", "signal 9", "still running", and the merged output.
  std::string describe() const;

  // What was written so far; complete once wait() returned true.
  std::string out() const { return copy(out_); }
  std::string err() const { return copy(err_); }
  std::string merged() const { return copy(merged_); }

 private:
  void watch(int out, int err, int ended);  // the thread's work
  void take(std::string& stream, int descriptor);
  std::string copy(const std::string& text) const;
  void reap();

  pid_t pid_ = -1;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;  // from here on guarded by mutex_
  int status_ = 0;      // the exit code, or minus the signal
  std::string out_, err_, merged_;
  std::thread watcher_;
};

}  // namespace thinwire::test
