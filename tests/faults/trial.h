// One fault: a run of `thinwire train` that is disturbed, what became of it, and its continuation.
#pragma once

#include <filesystem>
#include <string>

#include "tests/faults/fault_schedule.h"

namespace thinwire::faults {

// How long a worker may be silent in these runs (--timeout), and how long workers may take to come
// together (--join-timeout).
inline constexpr Seconds kTimeout{3}, kJoinTimeout{10};
// What a survivor may need beyond that: at most 2.5 s to learn who is to blame; the rest is for a
// busy machine. --margin gives more to a machine that has other work.
inline constexpr Seconds kMargin{6};

struct Outcome {
  Fault fault;
  bool injected = false;     // else the run never came to its moment, and shows nothing
  Seconds survivors{0};      // from the fault until the last survivor had ended
  Seconds run{0};            // ... until the launcher had ended
  bool hung = false;         // the run had to be killed
  bool named = false;        // by every survivor and by the launcher
  bool clean = false;        // no process, port or temporary file was left
  bool resumed = false;      // from the newest checkpoint that was whole when the run ended
  std::string problem = {};  // empty: all is as it should be
  std::string output = {};   // of the disturbed run
};

// Runs `program`, a thinwire, in `scratch`, a directory that is empty before and afterwards. A run
// hangs if it takes longer than its deadline and `margin`.
Outcome inject(const Fault& fault, const std::string& program, const std::filesystem::path& scratch,
               Seconds margin = kMargin);

}  // namespace thinwire::faults
