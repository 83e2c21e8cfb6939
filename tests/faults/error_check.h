// Compares the errors of the workers and of their launcher with the fault that was injected.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launch/launcher.h"
#include "thinwire/error.h"

namespace thinwire::faults {

// Returns the fields of all errors in an event stream, in the order in which they were written.
std::vector<ErrorFields> errors_in(const std::filesystem::path& events);
// Returns the fields of the launcher's event, without its text; nullopt if there is none.
std::optional<launch::RunFailure> exit_in(const std::filesystem::path& events);

// What the errors of a run with a fault must contain.
struct ExpectedErrors {
  std::string host;         // of all ranks
  std::set<int> survivors;  // ranks that must report an error; none while joining, because the
                            // launcher may be first
  std::set<int> blamed;     // each error must name one of these ranks
  bool without_deadline = false;  // the fault itself must be noticed: no error may be a deadline
};

// Returns the ranks whose own error is that there was no room for a file.
std::set<int> ranks_without_room(const std::vector<ErrorFields>& errors);

// Returns nothing if the error of each survivor has one of the blamed ranks, its host and the
// operation in its fields, none is a deadline where `expected` allows none, the launcher's event
// leads to one of these ranks, too, and the exit code is 1; else what is missing.
std::string not_named(const std::vector<ErrorFields>& errors,
                      const std::optional<launch::RunFailure>& exit, const ExpectedErrors& expected,
                      int exit_code);

// The same under mpirun, which ends the survivors of a death itself: the error of one rank is
// enough, or mpirun's own line with rank, host and signal.
std::string not_named_under_mpi(const std::vector<ErrorFields>& errors, std::string_view output,
                                const ExpectedErrors& expected, int exit_code);

}  // namespace thinwire::faults
