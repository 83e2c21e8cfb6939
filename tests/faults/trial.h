// One fault: it is injected into a run of `thinwire train`, the end of the run is checked, and the
// run is resumed.
#pragma once

#include <filesystem>
#include <string>

#include "tests/faults/fault_schedule.h"

namespace thinwire::faults {

// The other workers notice a stopped worker by their deadline (--timeout), and a fault of a worker
// that joins by theirs for joining (--join-timeout). They must notice all other faults without a
// deadline, so these runs have one that no run reaches.
struct Deadlines {
  Seconds stop{3};
  Seconds join{10};
};
inline constexpr Seconds kEndless{100'000};
// A run that has not ended after this time hangs. The limit is long because the machine may be
// busy; the time that survivors really take is recorded.
inline constexpr Seconds kPatience{300};

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
  std::string output = {};   // of the disturbed run, and its events of errors
};

// Runs `program`, a thinwire binary, in the directory `scratch`, which is empty before and
// afterwards.
Outcome inject(const Fault& fault, const std::string& program, const std::filesystem::path& scratch,
               const Deadlines& deadlines);

}  // namespace thinwire::faults
