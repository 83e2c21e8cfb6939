// How a command gets its workers: which transport, how many, started by whom.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "launch/discovery.h"
#include "thinwire/launch.h"
#include "transport/backends.h"

namespace thinwire::cli {

// The flags that every command with workers has.
struct GroupFlags {
  std::optional<int> workers;
  std::string transport;  // empty: mpi under an MPI launcher, else gloo, else threads
  std::string network;    // empty: the real one
  double timeout = 60;
  double join_timeout = 30;
  launch::PlaceFlags place;
  std::string token_file;
  std::string fault;
};
void add_group_flags(CLI::App& command, GroupFlags& flags);

struct Group {
  enum class Start {
    in_process,  // the engine runs all workers here
    by_others,   // a launcher did: this process is one worker
    by_us,       // this process starts the workers and watches them
  };
  Start start = Start::in_process;
  std::string engine;
  transport::BackendOptions join;
  // Workers that will share this machine's memory and have not started yet.
  int workers_to_fit = 1;
};

// Decides how the group starts; reads the token file and the size of the free memory. ConfigError
// if the flags, the build and the environment do not fit together.
Group plan_group(const GroupFlags& flags, const launch::Environment& env);

// Runs the worker on every rank that lives in this process, or starts processes that will do so.
// Returns the exit code; throws what a worker in this process threw.
int run_group(const Group& group, Invocation& invocation, const Worker& worker);

}  // namespace thinwire::cli
