// One worker that the launcher started: its end, its output, its last words.
#pragma once

#include <sys/types.h>

#include <deque>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thinwire::launch {

// A file descriptor with an owner.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int number() const noexcept { return number_; }

 private:
  int number_;
};

// Where the output of all workers goes. Rank 0 may draw a live line: its bytes pass as they are.
// Lines of the others come whole, with [rank r] in front, and only once if several say the same.
class Relay {
 public:
  explicit Relay(std::ostream& err) : err_(err) {}

  void bytes(int rank, std::string_view text);
  void line(int rank, const std::string& text);
  void flush() { err_ << std::flush; }

 private:
  std::ostream& err_;
  std::string last_line_;
  bool live_line_ = false;  // rank 0 is rewriting a line that has no end yet
};

// How a process ended.
struct ProcessExit {
  bool by_signal = false;
  int number = 0;  // of the signal, or the exit code
  bool peaceful() const noexcept { return !by_signal && number == 0; }
  // "was killed by SIGKILL", "ended with exit code 1"
  std::string describe() const;
};

class WorkerProcess {
 public:
  // Starts it. `environment` has NAME=value lines; `inherited` is a descriptor to pass on, or -1.
  // The process dies with the thread that started it and leaves Ctrl-C to its launcher.
  WorkerProcess(int rank, const std::vector<std::string>& command,
                const std::vector<std::string>& environment, int inherited);
  ~WorkerProcess();  // kills it if it still runs
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  int rank() const noexcept { return rank_; }
  bool running() const noexcept { return !exit_.has_value(); }
  const ProcessExit& death() const { return exit_.value(); }
  const std::deque<std::string>& last_lines() const noexcept { return last_lines_; }

  int end_event() const noexcept { return end_event_.number(); }  // readable once it has ended
  int output() const noexcept { return output_.number(); }        // -1 when closed
  // Passes on what it has written.
  void forward_output(Relay& relay);
  // After end_event(): takes note of its death and passes on the rest of its output.
  void reap(Relay& relay);
  void signal(int number);

 private:
  static constexpr std::size_t kLastLines = 5;

  void take(std::string_view text, Relay& relay);
  void finish_line(Relay& relay);
  void record_exit();

  int rank_;
  pid_t pid_ = -1;
  Descriptor end_event_;
  Descriptor output_;
  std::string line_;  // unfinished
  std::deque<std::string> last_lines_;
  std::optional<ProcessExit> exit_;
};

}  // namespace thinwire::launch
