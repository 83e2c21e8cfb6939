// One fault: it is injected into a run of `thinwire train`, the end of the run is checked, and the
// run is resumed.
#pragma once

#include <filesystem>
#include <string>

#include "tests/faults/fault_schedule.h"

namespace thinwire::faults {

// How long a worker may be silent in these runs (--timeout), and how long workers may take to join
// (--join-timeout).
inline constexpr Seconds kTimeout{3}, kJoinTimeout{10};
// The additional time that a survivor may need: at most 2.5 s to find the rank to blame; the rest
// is for a busy machine. --margin gives more time.
inline constexpr Seconds kMargin{6};

struct Outcome {
  Fault fault;
  bool injected = false;     // else the run did not reach the moment of the fault
  Seconds survivors{0};      // from the fault until the last survivor had ended
  Seconds run{0};            // ... until the launcher had ended
  bool hung = false;         // this program had to kill the run
  bool named = false;        // by every survivor and by the launcher
  bool clean = false;        // no process, port or temporary file was left behind
  bool resumed = false;      // from the newest checkpoint that was intact when the run ended
  std::string problem = {};  // empty: there is none
  std::string output = {};   // of the disturbed run
};

// Runs `program`, a thinwire binary, in the directory `scratch`, which is empty before and
// afterwards. A run counts as hung if it takes longer than its deadline plus `margin`.
Outcome inject(const Fault& fault, const std::string& program, const std::filesystem::path& scratch,
               Seconds margin = kMargin);

}  // namespace thinwire::faults
