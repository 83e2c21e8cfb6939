// Workers on this machine, started by thinwire itself: as many copies of a program as there are
// ranks, with torchrun's variables, watched until the last one has ended.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/console.h"
#include "thinwire/types.h"

namespace thinwire::launch {

// Tells a worker that launch_workers started it, and where its progress will be seen.
inline constexpr std::string_view kLauncherVariable = "THINWIRE_LAUNCHER";
inline constexpr std::string_view kLauncherOnTerminal = "terminal";
inline constexpr std::string_view kLauncherElsewhere = "plain";
// The number of the listening socket that rank 0 inherits; its port is MASTER_PORT.
inline constexpr std::string_view kMasterSocketVariable = "THINWIRE_MASTER_SOCKET";
// With this exit code a worker tells its launcher that it failed because a peer did.
inline constexpr int kPeerFailed = 3;

struct LaunchOptions {
  std::vector<std::string> command;  // program and arguments, the same for every worker
  int workers = 1;
  // After the first death: for the others to notice and report it by themselves. Those that train
  // at a sync_mode of their own notice late, and then ask who is silent, which takes up to 2.5 s.
  Seconds grace{5};
  // How long a worker may be silent (their --timeout). Workers part together, so when one has ended
  // in peace, the others have to within this and the grace.
  Seconds timeout{60};
  // Between SIGTERM and SIGKILL.
  Seconds patience{1};
};

// Returns the exit code for the whole run: 0; kInterrupted after SIGINT or SIGTERM, with all
// workers stopped within `patience`; else that of the failure, which has been printed: first the
// last lines of the worker to blame, at the very end who it was, where, how it died, and what the
// others were doing with it.
//
// Rank 0 keeps this process's stdin and stdout. What workers write to stderr is passed on, with
// [rank r] in front of each line but those of rank 0. No worker outlives this process.
int launch_workers(const LaunchOptions& options, Io& io);

}  // namespace thinwire::launch
