// Shows the progress of a comparison: on a terminal a table that is rewritten in place, elsewhere
// plain lines.
#pragma once

#include <deque>
#include <filesystem>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "launch/console.h"
#include "observe/events.h"
#include "report/table.h"

namespace thinwire::report {

class CompareProgress {
 public:
  // It reads `comparison` whenever it draws; both arguments outlive it.
  CompareProgress(launch::Io& io, const Comparison& comparison);
  ~CompareProgress() { clear(); }
  CompareProgress(const CompareProgress&) = delete;
  CompareProgress& operator=(const CompareProgress&) = delete;

  void begin(std::size_t run);
  void status(std::string_view text);   // how far the run is
  void message(std::string_view text);  // to be read: it stays
  void end();                           // the run has a result, or a problem
  void clear();

  // Returns whether each status line replaces the one before, so that they may come often.
  bool in_place() const noexcept { return in_place_; }

 private:
  void draw();
  std::string state_of(std::size_t run) const;

  launch::Io& io_;
  const Comparison& comparison_;
  CompareTable table_;
  int columns_ = 0;
  bool in_place_ = false;  // the table fits on the terminal
  std::size_t drawn_ = 0;  // lines of it that are on the screen now
  std::size_t current_ = 0;
  bool running_ = false;
  std::string status_;
  std::size_t messages_ = 0;  // since begin()
};

// Follows one run of a comparison. Progress, warnings and the reason of a failure come from its
// event stream. The last lines of its stderr are kept for people to read after a failure.
class RunWatcher final : private std::streambuf {
 public:
  // `events` is the file of the stream; it need not exist yet. `progress` outlives the watcher.
  RunWatcher(CompareProgress& progress, std::filesystem::path events)
      : progress_(progress), events_(std::move(events)), stream_(this) {}

  // Returns where the run's stderr goes to. Whenever a line comes, the stream is read, too.
  std::ostream& stream() noexcept { return stream_; }
  // Reads and shows the events that are new. Call it once more when the run has ended.
  void read_events();

  // Returns one line per warning; those of ranks other than 0 begin with "[rank r] ".
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  // Returns the last lines of stderr, oldest first.
  const std::deque<std::string>& last_lines() const noexcept { return last_lines_; }
  // Returns in one line why the run ended with that exit code.
  std::string problem(int exit_code) const;

 private:
  int_type overflow(int_type c) override;
  int sync() override;
  void finish_line();
  void show(const observe::Json& event);

  CompareProgress& progress_;
  observe::EventReader events_;
  std::vector<std::string> warnings_;
  std::string error_;  // the first one that a rank made itself, not by losing another
  std::string exit_;   // how the first worker ended, according to the launcher
  std::string line_;
  std::deque<std::string> last_lines_;
  Seconds last_plain_line_{-1e9};
  std::ostream stream_;
};

}  // namespace thinwire::report
