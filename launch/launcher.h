// Starts the workers of a job on this machine: one copy of a program per rank, with the environment
// variables of torchrun, watched until the last one has ended.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/console.h"
#include "thinwire/types.h"

namespace thinwire::launch {

// Set for workers that launch_workers() started. The value says where their progress is shown.
inline constexpr std::string_view kLauncherVariable = "THINWIRE_LAUNCHER";
inline constexpr std::string_view kLauncherOnTerminal = "terminal";
inline constexpr std::string_view kLauncherElsewhere = "plain";
// The descriptor of the listening socket that rank 0 inherits; its port is MASTER_PORT.
inline constexpr std::string_view kMasterSocketVariable = "THINWIRE_MASTER_SOCKET";
// The exit code of a worker that failed because another rank did.
inline constexpr int kPeerFailed = 3;

// How a run failed, from the ends of its processes.
struct RunFailure {
  // The first worker that failed by itself. If each failed because of a peer, the first that ended.
  // kNoRank if none failed, but some had to be stopped.
  int rank = kNoRank;
  std::string host;          // of all workers
  std::string signal;        // that killed this worker, such as "SIGKILL"; empty if none did
  std::optional<int> code;   // its exit code, if it ended by itself; kPeerFailed: it gave up
  Seconds seconds{0};        // from the start of the workers to its end
  std::vector<int> stopped;  // ranks that did not end by themselves
  std::string text;          // the line that launch_workers() prints last
};
using FailureSink = std::function<void(const RunFailure&)>;

struct LaunchOptions {
  std::vector<std::string> command;  // program and arguments, the same for every worker
  int workers = 1;
  // How long the other workers may take to notice and report the first failure before they are
  // stopped. Workers of asynchronous strategies notice late and then query all ranks, which takes
  // up to 2.5 s.
  Seconds grace{5};
  // How long a worker waits for a silent rank. Workers finish together: when one has succeeded, the
  // others have this time and the grace to end.
  Seconds timeout{60};
  // How long after SIGTERM a worker that still runs gets SIGKILL.
  Seconds kill_delay{1};
  // Called once, before launch_workers() returns, if the run failed; not after an interruption.
  FailureSink on_failure;
};

// Returns the exit code of the whole run:
// - kOk if all workers succeeded;
// - kInterrupted after SIGINT or SIGTERM; all workers stop within `kill_delay`;
// - kBadUsage or kRunFailed after a failure. This function prints the last lines of the worker that
//   failed, then one line that says which rank it was, on which host, how it ended, and what the
//   first rank that noticed wrote.
//
// Rank 0 keeps the stdin and stdout of this process. Output of workers on stderr is passed on, with
// "[rank r] " before each line of ranks other than 0. No worker outlives this process. SIGINT and
// SIGTERM have other handlers during the call; one call at a time.
int launch_workers(const LaunchOptions& options, Io& io);

}  // namespace thinwire::launch
