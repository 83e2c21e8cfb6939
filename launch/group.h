// Decides how the workers of a command start: by which transport, how many, started by whom.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/console.h"
#include "launch/discovery.h"
#include "launch/launcher.h"
#include "thinwire/launch.h"
#include "transport/backends.h"

namespace thinwire::launch {

// How many workers start on this machine if the user gives no number.
inline constexpr int kDefaultWorkers = 4;

// What the user asks for. Every command with workers has these flags.
struct GroupOptions {
  std::optional<int> workers;
  std::string transport;  // empty: mpi under an MPI launcher, else gloo, else threads
  std::string network;    // empty: the real one
  double timeout = 60;
  double join_timeout = 30;
  PlaceFlags place;
  std::string token_file;
  std::string fault;
};

struct Group {
  enum class Start {
    in_process,  // the transport runs all workers in this process
    by_others,   // a launcher has started this process, which is one worker
    by_us,       // this process starts the workers and watches them
  };
  Start start = Start::in_process;
  std::string transport;
  thinwire::transport::BackendOptions join;
  // Workers that will share this machine's memory and have not started yet.
  int workers_to_fit = 1;
};

// Decides how the group starts; reads the token file and the size of the free memory. Throws
// ConfigError if the options, the build and the environment do not fit together.
Group choose_group(const GroupOptions& options, const Environment& env);

// Runs the worker on every rank that lives in this process, or starts processes of this program
// with these arguments, which will do so. Returns the exit code; throws what a worker in this
// process threw. `on_failure` is called if processes that it started failed.
int run_group(const Group& group, const std::vector<std::string>& arguments, Io& io,
              const Worker& worker, const FailureSink& on_failure = {});

}  // namespace thinwire::launch
