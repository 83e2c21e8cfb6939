// One worker that the launcher started: its process and its output.
#pragma once

#include <deque>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/subprocess.h"

namespace thinwire::launch {

// Writes the output of all workers to one stream. The bytes of rank 0, which may rewrite a live
// line, pass unchanged. Lines of other ranks are written whole, after "[rank r] ", and only once if
// several ranks write the same line.
class Relay {
 public:
  explicit Relay(std::ostream& err) : err_(err) {}

  void bytes(int rank, std::string_view text);
  void line(int rank, const std::string& text);
  void flush() { err_ << std::flush; }

 private:
  std::ostream& err_;
  std::string last_line_;
  bool live_line_ = false;  // rank 0 is rewriting a line that it has not ended
};

class WorkerProcess {
 public:
  // Starts the worker; see base::Subprocess for its lifetime and for what this throws.
  // `environment` has NAME=value lines; `inherited` is a descriptor to pass on, or -1. Rank 0 keeps
  // stdin and stdout of this process; all other output goes to the relay. Workers ignore SIGINT,
  // which the launcher handles for all of them.
  WorkerProcess(int rank, const std::vector<std::string>& command,
                const std::vector<std::string>& environment, int inherited);

  int rank() const noexcept { return rank_; }
  bool running() const noexcept { return !exit_.has_value(); }
  // Returns how the worker ended; only after reap().
  const base::ProcessExit& exit() const { return exit_.value(); }
  const std::deque<std::string>& last_lines() const noexcept { return last_lines_; }

  int end_event() const noexcept { return process_.pidfd(); }   // readable once it has ended
  int output() const noexcept { return process_.err().get(); }  // -1 when closed
  // Passes on the output that has arrived.
  void forward_output(Relay& relay);
  // Records how the worker ended and passes on the rest of its output. Call it when end_event() is
  // readable.
  void reap(Relay& relay);
  // Sends a signal to the worker; has no effect after reap().
  void signal(int number) { process_.signal(number); }

 private:
  static constexpr std::size_t kLastLines = 5;

  void append(std::string_view text, Relay& relay);
  void finish_line(Relay& relay);

  int rank_;
  base::Subprocess process_;
  std::string line_;  // unfinished
  std::deque<std::string> last_lines_;
  std::optional<base::ProcessExit> exit_;
};

}  // namespace thinwire::launch
