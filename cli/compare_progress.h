// How far a comparison is: on a terminal a table that is rewritten in place, elsewhere plain lines.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "launch/console.h"
#include "report/table.h"

namespace thinwire::cli {

class CompareProgress {
 public:
  // Looks at `comparison` whenever it draws; both outlive it.
  CompareProgress(launch::Io& io, const report::Comparison& comparison);
  ~CompareProgress() { clear(); }
  CompareProgress(const CompareProgress&) = delete;
  CompareProgress& operator=(const CompareProgress&) = delete;

  void begin(std::size_t run);
  void status(std::string_view text);   // how far the run is
  void message(std::string_view text);  // to be read: it stays
  void end();                           // the run has a result, or a problem
  void clear();

  // Whether status lines may come often, because each takes the place of the one before.
  bool in_place() const noexcept { return in_place_; }
  // Messages since begin().
  const std::vector<std::string>& messages() const noexcept { return messages_; }

 private:
  void draw();
  std::string state_of(std::size_t run) const;

  launch::Io& io_;
  const report::Comparison& comparison_;
  report::CompareTable table_;
  int columns_ = 0;
  bool in_place_ = false;  // the table fits on the terminal
  std::size_t drawn_ = 0;  // lines of it that stand there now
  std::size_t current_ = 0;
  bool running_ = false;
  std::string status_;
  std::vector<std::string> messages_;
};

// What a run writes to its stderr, taken apart into lines that say how far it is and messages. A
// live line, which is rewritten from its start, counts as often as it is flushed.
class RunOutput final : private std::streambuf {
 public:
  RunOutput(CompareProgress& progress, std::string_view progress_word)
      : progress_(progress), progress_word_(progress_word), stream_(this) {}

  std::ostream& stream() noexcept { return stream_; }

 private:
  int_type overflow(int_type c) override;
  int sync() override;
  void finish_line();

  CompareProgress& progress_;
  std::string progress_word_;
  std::string line_;
  std::ostream stream_;
};

}  // namespace thinwire::cli
