// A program that this process starts, watches and ends.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "thinwire/types.h"

namespace thinwire::base {

// How a process ended.
struct ProcessExit {
  bool by_signal = false;
  int number = 0;  // the signal, or the exit code

  bool succeeded() const noexcept { return !by_signal && number == 0; }
  // Returns the signal as "SIGKILL"; empty if the process ended by itself.
  std::string signal_name() const;
  // Returns "killed by SIGKILL" or "ended with exit code 1".
  std::string describe() const;
};

struct SubprocessOptions {
  enum class Input { inherit, null };
  // `to_stderr` is for stdout alone: it is written to wherever stderr goes.
  enum class Output { inherit, pipe, to_stderr };

  // The program and its arguments. A program without a slash is looked up in PATH.
  std::vector<std::string> command;
  // The whole environment as NAME=value lines; see environment_with().
  std::vector<std::string> environment;
  Input in = Input::null;
  Output out = Output::inherit;
  Output err = Output::inherit;
  // Descriptors of this process that the program gets under the same numbers.
  std::vector<int> inherited;
  // The program becomes the leader of a session of its own, whose number is its pid.
  bool new_session = false;
  // The program ignores SIGINT, which a terminal sends to all processes of a job.
  bool ignore_interrupt = false;
};

// Returns the environment of this process; a line of `changes` replaces the variable of its name.
std::vector<std::string> environment_with(std::span<const std::string> changes);

// The program starts with no signal blocked and the default action for SIGTERM. It is killed when
// the thread that constructed this object ends, so it never outlives this process.
//
// One thread may call peek() and read the pipes while another one calls signal(); all other calls
// need one thread at a time.
class Subprocess {
 public:
  // Returns once the program runs. Throws std::system_error if it cannot be started; then there is
  // no process.
  explicit Subprocess(const SubprocessOptions& options);
  ~Subprocess();  // kills the program if it still runs
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const noexcept { return pid_; }
  // Becomes readable when the program ends.
  int pidfd() const noexcept { return pidfd_.get(); }
  // The read ends of the pipes; reading does not block. Empty without a pipe; the caller may reset
  // them.
  UniqueFd& out() noexcept { return out_; }
  UniqueFd& err() noexcept { return err_; }
  const UniqueFd& err() const noexcept { return err_; }

  // Waits until the program has ended, at most for `limit`; returns nothing if it still runs.
  // After wait() the kernel may give the pid to another process; peek() keeps it reserved.
  std::optional<ProcessExit> wait(Seconds limit);
  std::optional<ProcessExit> peek(Seconds limit) const;

  // Sends a signal to the program; has no effect after wait() has returned how it ended.
  void signal(int number) const noexcept;

 private:
  void reap() noexcept;

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd out_;
  UniqueFd err_;
  std::optional<ProcessExit> exit_;  // set once the process has been reaped
};

}  // namespace thinwire::base
