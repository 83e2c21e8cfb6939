// What the workers and their launcher say about a fault, compared with what happened.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace thinwire::faults {

// Empty if, in what a run wrote to stderr, each survivor names one of the blamed ranks with its
// host and the operation, and the launcher's last line does so, too, and its exit code is 1; else
// what is missing.
std::string not_named(std::string_view err, const std::set<int>& survivors,
                      const std::set<int>& blamed, int exit_code);

// mpirun ends the survivors of a death itself, so that one voice, its own or a worker's, must do.
std::string not_named_under_mpi(std::string_view output, const std::set<int>& blamed,
                                int exit_code);

}  // namespace thinwire::faults
