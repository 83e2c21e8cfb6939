// SimGrid in the way in which one process can use it: a single engine on its own thread, a star of
// hosts, and the calls by which an actor enters the simulation kernel.
#pragma once

#include <cxxabi.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "thinwire/types.h"

#ifdef __SANITIZE_THREAD__  // GCC warns of fences that TSan does not see; ours are SimGrid's
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
#include <simgrid/s4u.hpp>
#include <simgrid/simix.hpp>
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic pop
#endif

namespace thinwire::transport::sim {

// More actors would exceed the memory mappings that Linux grants a process (65530, two per actor),
// at which SimGrid aborts. This leaves room for four background tasks per worker; gossip has three.
inline constexpr int kMaxWorkers = 6000;

// The hosts of one simulation and the time at which it starts.
struct Stage {
  std::span<simgrid::s4u::Host* const> hosts;  // one per worker
  Seconds start{0};                            // of this simulation, by the engine's clock
};

// Lets `enter` create the actors of a simulation and runs it to its end. There is one host per
// worker, on links of the given rate; the rate does not matter if it is 0. Any thread may call it;
// simulations of several threads run one after the other.
void simulate(int workers, double bytes_per_second, const std::function<void(const Stage&)>& enter);

// Actors share one OS thread, hence also the C++ runtime's record of the exceptions being handled.
// Every call into SimGrid may let other actors run. Before it, an actor sets its own record aside,
// so that it may make the call inside a catch block.
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

// The longest time for SimGrid, which does not accept infinity.
inline constexpr Seconds kLongest{1e9};

// Lets virtual time pass for the calling actor; does nothing if the duration is not positive.
inline void pause(Seconds duration) {
  if (!(duration > Seconds(0))) return;
  const ExceptionsAside aside;
  simgrid::s4u::this_actor::sleep_for(std::min(duration, kLongest).count());
}

// Runs `code` in the simulation kernel, where no virtual time passes and no actor runs meanwhile.
template <class Code>
void in_kernel(Code&& code) {
  const ExceptionsAside aside;
  simgrid::kernel::actor::simcall_answered(std::forward<Code>(code));
}

}  // namespace thinwire::transport::sim
