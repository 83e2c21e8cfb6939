// The streams of a command: it writes data to `out` and everything else to `err`.
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
  bool bold_out = false;   // out may be emphasized
  bool color_err = false;  // err may be coloured
};

// Returns the streams of this process: std::cout and std::cerr. Colours depend on NO_COLOR and on
// whether the streams are terminals.
Io process_io();

// Writes an error to err, after kErrorPrefix, in red if possible. It replaces a live line.
inline constexpr std::string_view kErrorPrefix = "thinwire: ";
inline constexpr std::string_view kEraseLine = "\r\033[K";  // erases a live line
void print_error(Io& io, std::string_view text);
// Writes a warning in the same way. A warning says why a result may be wrong or misleading.
inline constexpr std::string_view kWarningPrefix = "thinwire: warning: ";
void print_warning(Io& io, std::string_view text);
// Writes, in the same way but never coloured, something worth knowing.
void print_note(Io& io, std::string_view text);
std::string bold(const Io& io, std::string_view text);

// Shows the progress of a command: one live line on a terminal, plain lines elsewhere. The live
// line is erased when data or errors follow. Used by one thread.
class Progress {
 public:
  explicit Progress(Io& io) : io_(io) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void stage(std::string_view text);   // also shown without a terminal; call it rarely
  void detail(std::string_view text);  // shown only on a terminal, at most every 0.1 s
  void clear();

 private:
  void rewrite(std::string_view text);

  Io& io_;
  bool shown_ = false;
  double last_ = 0;
};

// Makes Ctrl-C end this process at once with exit code 130, even if a shell made it ignore SIGINT
// (as scripts do with `&`). Has no effect in workers of our launcher, which handles Ctrl-C. Call it
// again after libraries that install handlers of their own, such as MPI.
void end_on_interrupt(const Io& io);

}  // namespace thinwire::launch
