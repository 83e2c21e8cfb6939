#include "cli/group_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "cli/flag_values.h"

namespace thinwire::cli {

void add_group_flags(CLI::App& command, launch::GroupOptions& options) {
  std::vector<std::string_view> names;
  for (const TransportBackend& backend : transport_backends()) names.push_back(backend.name);
  command
      .add_option("--workers", options.workers,
                  fmt::format("number of workers ({}, or as many as the launcher started)",
                              launch::kDefaultWorkers))
      ->type_name("P");
  command
      .add_option("--transport", options.transport,
                  fmt::format("{} (gloo, or mpi under mpirun)", fmt::join(names, ", ")))
      ->type_name("T");
  command
      .add_option("--network", options.network,
                  "imitate a slow network on this machine, such as 1gbit,0.2ms")
      ->type_name("BW[,LAT]");
  command.add_option("--timeout", options.timeout, "seconds a peer may be silent (60)")
      ->type_name("S")
      ->check(number(1e-3, Transport::kLongestTimeout.count()));

  const std::string group = "Workers started by others (torchrun, mpirun and srun need no flags)";
  command.add_option("--rank", options.place.rank, "rank of this worker, from 0")
      ->type_name("R")
      ->group(group);
  command.add_option("--world-size", options.place.world_size, "number of all workers")
      ->type_name("P")
      ->group(group);
  command.add_option("--master", options.place.master, "address at which rank 0 listens")
      ->type_name("HOST:PORT")
      ->group(group);
  command
      .add_option("--interface", options.place.interface,
                  "network interface (the one that routes to the master)")
      ->type_name("NAME")
      ->group(group);
  command
      .add_option("--token-file", options.token_file,
                  "a secret of this job, by which ranks on several machines recognize each other "
                  "(or THINWIRE_TOKEN)")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--join-timeout", options.join_timeout, "seconds for all workers to join (30)")
      ->type_name("S")
      ->check(number(1e-3, Transport::kLongestTimeout.count()))
      ->group(group);
  command.add_option("--fault", options.fault)->group("");  // for tests: see faulty.cpp
}

}  // namespace thinwire::cli
