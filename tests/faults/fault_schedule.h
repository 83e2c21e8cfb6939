// Which faults a run of the matrix injects, drawn from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/types.h"

namespace thinwire::faults {

inline constexpr int kWorkers = 4;

enum class Kind {
  kill,   // SIGKILL
  stop,   // SIGSTOP for longer than the deadline; half of the time it is continued then
  close,  // one of its TCP connections is shut down
  full,   // the disk fills up, so that the next checkpoint fails
};
std::string_view word(Kind kind);

struct Fault {
  int number = 0;
  std::string transport;
  std::string strategy;
  Kind kind = Kind::kill;
  int victim = 0;
  std::uint64_t step = 0;    // rank 0 has made so many; 0: the workers are still coming together
  Seconds delay{0};          // from then on
  bool continued = false;    // after a stop
  std::uint32_t choice = 0;  // which connection; how much room is left on the disk

  // "17: gloo, gtopk, stop of rank 2 at step 57"
  std::string describe() const;
};

// Returns `count` faults. Strategies and kinds take turns, so that few faults differ as much as
// they can and many cover all pairs on both transports; every sixth goes over mpi if that is built.
// The rest is drawn: the same seed gives the same schedule.
std::vector<Fault> fault_schedule(std::uint64_t seed, int count, const std::vector<Kind>& kinds);

}  // namespace thinwire::faults
