// What the workers and their launcher say about a fault, compared with what happened.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace thinwire::faults {

// A disturbed run as it should be told about.
struct Scene {
  std::string host;         // of all ranks
  std::set<int> survivors;  // who must speak; while joining nobody, for the launcher may know first
  std::set<int> blamed;     // any of whom may be named
  bool joining = false;
};

// The ranks that say of themselves that there was no room for what they had to write.
std::set<int> ranks_without_room(std::string_view output);

// Empty if, in what a run wrote to stderr, each survivor's own line names one of the blamed ranks
// with its host and the operation, and the launcher's last line does so, too (while joining: rank
// and host), and its exit code is 1; else what is missing.
std::string not_named(std::string_view err, const Scene& scene, int exit_code);

// mpirun ends the survivors of a death itself, so that one voice must do: that of a survivor as
// above, or, of a death, mpirun's own with rank, host and signal.
std::string not_named_under_mpi(std::string_view output, const Scene& scene, int exit_code);

}  // namespace thinwire::faults
