#include "cli/group.h"
#include "base/readable.h"
#include "transport/backends.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "base/memory.h"
#include "base/number.h"
#include "cli/numel.h"
#include "cli/ranges.h"
#include "launch/launcher.h"
#include "launch/token.h"

namespace thinwire::cli {
namespace {

constexpr int kWorkersByHand = 4;
// Started by this process, as processes or threads. `sim` has a limit of its own.
constexpr int kMostLocalWorkers = 1024;
constexpr std::uint64_t kBytesPerProcess = 16u << 20;  // the least that one takes

bool built(std::string_view engine) {
  return std::ranges::any_of(transport_backends(),
                             [&](const TransportBackend& e) { return e.name == engine; });
}

std::string choose_engine(const GroupFlags& flags, const std::optional<launch::Place>& place) {
  if (!flags.transport.empty()) return flags.transport;
  const bool mpi_launcher = place && (place->launcher == launch::Launcher::open_mpi ||
                                      place->launcher == launch::Launcher::pmi);
  if (mpi_launcher && built("mpi")) return "mpi";
  return built("gloo") ? "gloo" : "threads";
}

void check_size(const GroupFlags& flags, const std::optional<launch::Place>& place) {
  if (flags.workers && *flags.workers < 1) {
    throw ConfigError(fmt::format("--workers {}: at least 1 is needed", *flags.workers));
  }
  if (flags.workers && place && *flags.workers != place->size) {
    throw ConfigError(
        fmt::format("--workers {}, but {} says {}; leave --workers out, the launcher decides how "
                    "many there are",
                    *flags.workers, place->source, place->size));
  }
}

// A script of a Slurm job has a SLURM_PROCID even if srun did not start it.
bool really_launched(const std::optional<launch::Place>& place, const launch::Environment& env) {
  if (!place || place->size == 1) return false;
  return place->launcher != launch::Launcher::slurm || env("SLURM_STEP_ID").has_value();
}

int local_workers(const GroupFlags& flags, std::string_view engine) {
  const int workers = flags.workers.value_or(kWorkersByHand);
  if (engine != "sim" && workers > kMostLocalWorkers) {
    throw ConfigError(
        fmt::format("--workers {}: at most {} on one machine", workers, kMostLocalWorkers));
  }
  return workers;
}

void check_processes_fit(int workers) {
  const std::uint64_t needed = static_cast<std::uint64_t>(workers) * kBytesPerProcess;
  const std::optional<std::uint64_t> room = base::available_memory();
  if (!room || needed <= *room) return;
  throw ConfigError(
      fmt::format("--workers {}: too many processes for the memory of this machine (at least {} "
                  "needed, {} available)",
                  workers, base::gibibytes(needed), base::gibibytes(*room)));
}

void plan_in_process(Group& group, const GroupFlags& flags,
                     const std::optional<launch::Place>& place, const launch::Environment& env) {
  if (really_launched(place, env)) {
    throw ConfigError(fmt::format(
        "--transport {}: it runs all workers in one process, but {} started {}; start it once "
        "without a launcher, or choose another transport",
        group.engine, place->source, place->size));
  }
  group.start = Group::Start::in_process;
  group.join.size = group.workers_to_fit = local_workers(flags, group.engine);
}

void plan_mpi(const GroupFlags& flags, const std::optional<launch::Place>& place,
              const launch::Environment& env) {
  if (place && launch::under_mpi_launcher(env)) return;
  throw ConfigError(fmt::format(
      "--transport mpi: mpirun or srun must start its workers; for example `mpirun -n {} thinwire "
      "... --transport mpi`, or choose --transport gloo to start workers on this machine without "
      "it",
      flags.workers.value_or(kWorkersByHand)));
}

int inherited_socket(const launch::Environment& env) {
  const auto text = env(launch::kMasterSocketVariable);
  if (!text) return -1;
  return base::parse_number<int>(*text).value_or(-1);
}

void plan_processes(Group& group, const GroupFlags& flags,
                    const std::optional<launch::Place>& place, const launch::Environment& env) {
  group.join.interface = launch::find_interface(flags.place, env);
  group.join.token = launch::find_token(flags.token_file, env);
  if (group.engine == "mpi") plan_mpi(flags, place, env);
  if (!place) {
    if (flags.place.master) {
      throw ConfigError(
          "--master: --rank and --world-size are needed, too, or a launcher that sets them");
    }
    group.start = Group::Start::by_us;
    group.join.size = group.workers_to_fit = local_workers(flags, group.engine);
    check_processes_fit(group.join.size);
    return;
  }
  group.start = Group::Start::by_others;
  group.join.rank = place->rank;
  group.join.size = place->size;
  // The launcher that started this process has checked the memory for all its workers.
  group.workers_to_fit = env(launch::kLauncherVariable) ? 0 : 1;
  if (group.engine == "mpi") return;
  const launch::Endpoint master = launch::find_master(flags.place, env, *place);
  group.join.master_host = master.host;
  group.join.master_port = master.port;
  if (place->rank == 0) group.join.master_socket = inherited_socket(env);
}

LogSink log_to(launch::Io& io) {
  return [&io](LogLevel level, std::string_view text) {
    if (level >= LogLevel::warning) launch::print_warning(io, text);
  };
}

}  // namespace

void add_group_flags(CLI::App& command, GroupFlags& flags) {
  std::vector<std::string_view> names;
  for (const TransportBackend& engine : transport_backends()) names.push_back(engine.name);
  command
      .add_option(
          "--workers", flags.workers,
          fmt::format("number of workers ({}, or as many as the launcher started)", kWorkersByHand))
      ->type_name("P");
  command
      .add_option("--transport", flags.transport,
                  fmt::format("{} (gloo, or mpi under mpirun)", fmt::join(names, ", ")))
      ->type_name("T");
  command
      .add_option("--network", flags.network,
                  "imitate a slow network on this machine, such as 1gbit,0.2ms")
      ->type_name("BW[,LAT]");
  command.add_option("--timeout", flags.timeout, "seconds a peer may be silent (60)")
      ->type_name("S")
      ->check(number(1e-3, Transport::kLongestTimeout.count()));

  const std::string group = "Workers started by others (torchrun, mpirun and srun need no flags)";
  command.add_option("--rank", flags.place.rank, "rank of this worker, from 0")
      ->type_name("R")
      ->group(group);
  command.add_option("--world-size", flags.place.world_size, "number of all workers")
      ->type_name("P")
      ->group(group);
  command.add_option("--master", flags.place.master, "address at which rank 0 listens")
      ->type_name("HOST:PORT")
      ->group(group);
  command
      .add_option("--interface", flags.place.interface,
                  "network interface (the one that routes to the master)")
      ->type_name("NAME")
      ->group(group);
  command
      .add_option("--token-file", flags.token_file,
                  "a secret of this job, by which ranks on several machines recognise each other "
                  "(or THINWIRE_TOKEN)")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--join-timeout", flags.join_timeout, "seconds for all workers to join (30)")
      ->type_name("S")
      ->check(number(1e-3, Transport::kLongestTimeout.count()))
      ->group(group);
  command.add_option("--fault", flags.fault)->group("");  // for tests: see faulty.cpp
}

Group plan_group(const GroupFlags& flags, const launch::Environment& env) {
  const std::optional<launch::Place> place = launch::discover(flags.place, env);
  Group group;
  group.engine = choose_engine(flags, place);
  const TransportBackend& engine = find_backend(group.engine);
  group.join.timeout = Seconds(flags.timeout);
  group.join.join_timeout = Seconds(flags.join_timeout);
  if (!flags.network.empty()) group.join.network = Network::parse(flags.network);
  group.join.fault = flags.fault;
  if (engine.in_process) {
    check_size(flags, really_launched(place, env) ? place : std::nullopt);
    plan_in_process(group, flags, place, env);
  } else {
    check_size(flags, place);
    plan_processes(group, flags, place, env);
  }
  if (!flags.fault.empty()) transport::check_fault(flags.fault, group.join.size);
  return group;
}

int run_group(const Group& group, Invocation& invocation, const Worker& worker) {
  if (group.start == Group::Start::by_us) {
    launch::LaunchOptions options;
    options.command = {std::filesystem::read_symlink("/proc/self/exe")};
    options.command.insert(options.command.end(), invocation.arguments.begin(),
                           invocation.arguments.end());
    options.workers = group.join.size;
    options.timeout = group.join.timeout;
    return launch::launch_workers(options, invocation.io);
  }
  transport::BackendOptions join = group.join;
  if (!join.log) join.log = log_to(invocation.io);
  run_workers(group.engine, join, [&](Transport& wire) {
    // Again, because engines may have put their own handler in its place.
    launch::end_on_interrupt(invocation.io);
    worker(wire);
  });
  return launch::kOk;
}

}  // namespace thinwire::cli
