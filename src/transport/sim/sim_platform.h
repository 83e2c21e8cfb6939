// The parts of SimGrid that exist once per process: a single engine on its own thread, a star of
// hosts, and the calls by which an actor enters the simulation kernel.
#pragma once

#include <cxxabi.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "thinwire/types.h"

#ifdef __SANITIZE_THREAD__  // GCC warns of fences, which TSan does not support; they are SimGrid's
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
#include <simgrid/s4u.hpp>
#include <simgrid/simix.hpp>
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic pop
#endif

namespace thinwire::transport::sim {

// How many actors, that is workers and their tasks, may run at a time. Linux grants a process 65530
// memory mappings, of which an actor takes two, and SimGrid aborts when there are no more. The
// limit leaves some for the rest of the process.
inline constexpr int kMaxActors = 30'000;

// The hosts of one simulation and the time at which it starts.
struct Stage {
  std::span<simgrid::s4u::Host* const> hosts;  // one per worker
  Seconds start{0};                            // of this simulation, by the engine's clock
};

// Calls `enter`, which creates the actors of a simulation, and runs the simulation to its end.
// There is one host per worker, with links of the given rate; 0 leaves the rate as it is. Any
// thread may call it; simulations of several threads run one after the other. Throws what `enter`
// throws.
void simulate(int workers, double bytes_per_second, const std::function<void(const Stage&)>& enter);

// Actors share one OS thread, and therefore the C++ runtime's record of the exceptions being
// handled. Every call of SimGrid may let other actors run. Around such a call, an object of this
// class saves the record of the actor, so that the call may be made inside a catch block.
class ExceptionsAside {
 public:
  ExceptionsAside() {
    std::memcpy(&mine_, abi::__cxa_get_globals(), sizeof mine_);
    constexpr Record kNone{nullptr, 0};
    std::memcpy(static_cast<void*>(abi::__cxa_get_globals()), &kNone, sizeof kNone);
  }
  ~ExceptionsAside() {
    std::memcpy(static_cast<void*>(abi::__cxa_get_globals()), &mine_, sizeof mine_);
  }
  ExceptionsAside(const ExceptionsAside&) = delete;
  ExceptionsAside& operator=(const ExceptionsAside&) = delete;

 private:
  struct Record {  // as the Itanium C++ ABI lays it out
    void* caught;
    unsigned uncaught;
  };
  Record mine_;
};

// The longest time that is passed to SimGrid, which does not accept infinity.
inline constexpr Seconds kLongest{1e9};

// Lets virtual time pass for the calling actor; does nothing if the duration is not positive.
inline void pause(Seconds duration) {
  if (!(duration > Seconds(0))) return;
  const ExceptionsAside aside;
  simgrid::s4u::this_actor::sleep_for(std::min(duration, kLongest).count());
}

// Runs `code` in the simulation kernel. No virtual time passes and no actor runs during it.
template <class Code>
void in_kernel(Code&& code) {
  const ExceptionsAside aside;
  simgrid::kernel::actor::simcall_answered(std::forward<Code>(code));
}

}  // namespace thinwire::transport::sim
