// What a command talks to: data on `out`, everything else on `err`.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "launch/environment.h"

namespace thinwire::launch {

enum ExitCode : int {
  kOk = 0,
  kRunFailed = 1,
  kBadUsage = 2,
  kInterrupted = 130,
};

struct Io {
  std::ostream& out;
  std::ostream& err;
  Environment env;
  bool live = false;       // err ends at a terminal: one line is rewritten in place
  bool bold_out = false;   // out may be emphasised
  bool color_err = false;  // err may be coloured
};

// Of this process: std::cout, std::cerr; NO_COLOR and whether they are terminals are respected.
Io process_io();

// On err, after kErrorPrefix, in red where that is possible, in the place of a live line.
inline constexpr std::string_view kErrorPrefix = "thinwire: ";
inline constexpr std::string_view kEraseLine = "\r\033[K";  // a live line, and back to its start
void print_error(Io& io, std::string_view text);
// The same, after a word that tells it from errors and notes: what puts a result in doubt.
inline constexpr std::string_view kWarningPrefix = "thinwire: warning: ";
void print_warning(Io& io, std::string_view text);
std::string bold(const Io& io, std::string_view text);

// How far a command is: one live line on a terminal, plain lines elsewhere. It is wiped when data
// or errors follow. Used by one thread.
class Progress {
 public:
  explicit Progress(Io& io) : io_(io) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void stage(std::string_view text);   // shown everywhere, so not more than once in a while
  void detail(std::string_view text);  // shown only on a terminal, and not more often than useful
  void clear();

 private:
  void rewrite(std::string_view text);

  Io& io_;
  bool shown_ = false;
  double last_ = 0;
};

// Ctrl-C ends this process at once with exit code 130, also where a shell made it ignore the signal
// (as it does with `&` in scripts). Workers of our launcher leave that to it. Libraries that
// install handlers of their own are the reason to call it again.
void end_on_interrupt(const Io& io);

}  // namespace thinwire::launch
