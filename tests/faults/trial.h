// One fault: a run of `thinwire train` that is disturbed, what became of it, and its continuation.
#pragma once

#include <filesystem>
#include <string>

#include "tests/faults/fault_schedule.h"

namespace thinwire::faults {

// A stopped worker is noticed by the deadline of the others (--timeout), a worker that is disturbed
// while it joins by theirs (--join-timeout). All other faults must be noticed without one, so these
// runs have deadlines that no run lives to see.
struct Deadlines {
  Seconds stop{3};
  Seconds join{10};
};
inline constexpr Seconds kEndless{100'000};
// A run that has not ended after this time hangs. It is patience with a busy machine, and no
// promise: how long survivors really take is recorded.
inline constexpr Seconds kPatience{300};

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
  std::string output = {};   // of the disturbed run, and its events of errors
};

// Runs `program`, a thinwire, in `scratch`, a directory that is empty before and afterwards.
Outcome inject(const Fault& fault, const std::string& program, const std::filesystem::path& scratch,
               const Deadlines& deadlines);

}  // namespace thinwire::faults
