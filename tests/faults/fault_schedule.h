// The faults of a run of this program, chosen at random by a seed.
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
  stop,   // SIGSTOP for longer than the deadline; half of the ranks are continued later
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
  std::uint64_t step = 0;    // of rank 0; 0: the workers are still joining
  Seconds delay{0};          // after that step
  bool continued = false;    // after a stop
  std::uint32_t choice = 0;  // chooses the connection, or how much room is left on the disk

  // Returns text such as "17: gloo, gtopk, stop of rank 2 at step 57".
  std::string describe() const;
};

// Returns `count` faults. Strategies and kinds alternate, so that a few faults differ as much as
// possible and many cover all pairs on both transports. Every sixth fault is on mpi, if that is in
// this build. The rest is random; the same seed gives the same schedule.
std::vector<Fault> fault_schedule(std::uint64_t seed, int count, const std::vector<Kind>& kinds);

}  // namespace thinwire::faults
