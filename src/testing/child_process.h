// A program that a test starts, watches and ends. No process that it starts outlives the test.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/subprocess.h"
#include "testing/split_words.h"
#include "thinwire/types.h"

namespace thinwire::test {

// The program runs in a session of its own, so that it and all processes it starts (mpirun puts
// each rank into a process group of its own) can be found and ended together. If the thread that
// started it ends, or the test is killed, the program is killed too. Used by one thread.
class ChildProcess {
 public:
  // `command` is a path or a name to be found in PATH, and its arguments; `environment` has
  // "NAME=value" lines that are added to the caller's. Throws std::system_error if the program
  // cannot be started.
  explicit ChildProcess(const Words& command, const Words& environment = {});
  // Ends the program and all processes it started that still run.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const noexcept { return process_.pid(); }

  // Waits for the end of the program. Returns false if it still runs after `limit`.
  bool wait(Seconds limit);
  // Waits until the merged output contains `text`. Returns false if it does not within `limit`, or
  // if the program ends without writing it.
  bool wait_for_output(std::string_view text, Seconds limit);
  // Waits until no process that the program started runs. Returns false if one does after `limit`.
  bool wait_for_descendants(Seconds limit);

  // Sends a signal to the program alone; has no effect once it has ended.
  void signal(int number);
  // Sends SIGKILL to the program and all processes it started.
  void kill_all();
  // Returns the processes of the program's session that still run, the program itself included.
  std::vector<pid_t> running() const;

  // Return how the program ended: nothing while it runs, and nothing if it ended the other way.
  std::optional<int> exit_code() const;
  std::optional<int> ended_by_signal() const;
  // Returns text for failure messages: "exit code 1", "signal 9" or "still running", and the merged
  // output.
  std::string describe() const;

  // Return what the program has written so far; complete once wait() has returned true.
  std::string out() const { return copy(out_); }
  std::string err() const { return copy(err_); }
  std::string merged() const { return copy(merged_); }

 private:
  void watch();  // runs in watcher_
  void append_output(std::string& stream, int fd);
  std::string copy(const std::string& text) const;

  base::Subprocess process_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<base::ProcessExit> exit_;  // from here on guarded by mutex_
  std::string out_, err_, merged_;
  std::thread watcher_;
};

}  // namespace thinwire::test
