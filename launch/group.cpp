#include "launch/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/memory.h"
#include "base/number.h"
#include "base/readable.h"
#include "launch/launcher.h"
#include "launch/token.h"

namespace thinwire::launch {
namespace {

// This process starts at most this many workers, as processes or threads. `sim` has a limit of its
// own.
constexpr int kMostLocalWorkers = 1024;
constexpr std::uint64_t kBytesPerProcess = 16u << 20;  // a process takes at least this much

bool built(std::string_view transport) {
  return std::ranges::any_of(transport_backends(),
                             [&](const TransportBackend& each) { return each.name == transport; });
}

std::string choose_transport(const GroupOptions& options, const std::optional<Place>& place) {
  if (!options.transport.empty()) return options.transport;
  const bool mpi_launcher =
      place && (place->launcher == Launcher::open_mpi || place->launcher == Launcher::pmi);
  if (mpi_launcher && built("mpi")) return "mpi";
  return built("gloo") ? "gloo" : "threads";
}

void check_size(const GroupOptions& options, const std::optional<Place>& place) {
  if (options.workers && *options.workers < 1) {
    throw ConfigError(fmt::format("--workers {}: at least 1 is needed", *options.workers));
  }
  if (options.workers && place && *options.workers != place->size) {
    throw ConfigError(
        fmt::format("--workers {}: {} says {}; leave --workers out, the launcher decides how "
                    "many there are",
                    *options.workers, place->source, place->size));
  }
}

// A script of a Slurm job has a SLURM_PROCID even if srun did not start it.
bool really_launched(const std::optional<Place>& place, const Environment& env) {
  if (!place || place->size == 1) return false;
  return place->launcher != Launcher::slurm || env("SLURM_STEP_ID").has_value();
}

int local_workers(const GroupOptions& options, std::string_view transport) {
  const int workers = options.workers.value_or(kDefaultWorkers);
  if (transport != "sim" && workers > kMostLocalWorkers) {
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

void set_up_in_process(Group& group, const GroupOptions& options, const std::optional<Place>& place,
                       const Environment& env) {
  if (really_launched(place, env)) {
    throw ConfigError(fmt::format(
        "--transport {}: it runs all workers in one process, but {} started {}; start it once "
        "without a launcher, or choose another transport",
        group.transport, place->source, place->size));
  }
  group.start = Group::Start::in_process;
  group.join.size = group.workers_to_fit = local_workers(options, group.transport);
}

void check_mpi_launcher(const GroupOptions& options, const std::optional<Place>& place,
                        const Environment& env) {
  if (place && under_mpi_launcher(env)) return;
  throw ConfigError(fmt::format(
      "--transport mpi: mpirun or srun must start its workers; for example `mpirun -n {} thinwire "
      "... --transport mpi`, or choose --transport gloo to start workers on this machine without "
      "it",
      options.workers.value_or(kDefaultWorkers)));
}

int inherited_socket(const Environment& env) {
  const auto text = env(kMasterSocketVariable);
  if (!text) return -1;
  return base::parse_number<int>(*text).value_or(-1);
}

void set_up_processes(Group& group, const GroupOptions& options, const std::optional<Place>& place,
                      const Environment& env) {
  group.join.interface = find_interface(options.place, env);
  group.join.token = find_token(options.token_file, env);
  if (group.transport == "mpi") check_mpi_launcher(options, place, env);
  if (!place) {
    if (options.place.master) {
      throw ConfigError(
          "--master: --rank and --world-size are needed, too, or a launcher that sets them");
    }
    group.start = Group::Start::by_us;
    group.join.size = group.workers_to_fit = local_workers(options, group.transport);
    check_processes_fit(group.join.size);
    return;
  }
  group.start = Group::Start::by_others;
  group.join.rank = place->rank;
  group.join.size = place->size;
  // The launcher that started this process has checked the memory for all its workers.
  group.workers_to_fit = env(kLauncherVariable) ? 0 : 1;
  if (group.transport == "mpi") return;
  const Endpoint master = find_master(options.place, env, *place);
  group.join.master_host = master.host;
  group.join.master_port = master.port;
  if (place->rank == 0) group.join.master_socket = inherited_socket(env);
}

LogSink log_to(Io& io) {
  return [&io](LogLevel level, std::string_view text) {
    if (level >= LogLevel::warning) print_warning(io, text);
  };
}

}  // namespace

Group choose_group(const GroupOptions& options, const Environment& env) {
  const std::optional<Place> place = discover(options.place, env);
  Group group;
  group.transport = choose_transport(options, place);
  const TransportBackend& backend = find_backend(group.transport);
  group.join.timeout = Seconds(options.timeout);
  group.join.join_timeout = Seconds(options.join_timeout);
  if (!options.network.empty()) group.join.network = Network::parse(options.network);
  group.join.fault = options.fault;
  if (backend.in_process) {
    check_size(options, really_launched(place, env) ? place : std::nullopt);
    set_up_in_process(group, options, place, env);
  } else {
    check_size(options, place);
    set_up_processes(group, options, place, env);
  }
  if (!options.fault.empty()) transport::check_fault(options.fault, group.join.size);
  return group;
}

int run_group(const Group& group, const std::vector<std::string>& arguments, Io& io,
              const Worker& worker, const FailureSink& on_failure) {
  if (group.start == Group::Start::by_us) {
    LaunchOptions options;
    options.command = {std::filesystem::read_symlink("/proc/self/exe")};
    options.command.insert(options.command.end(), arguments.begin(), arguments.end());
    options.workers = group.join.size;
    options.timeout = group.join.timeout;
    options.on_failure = on_failure;
    return launch_workers(options, io);
  }
  transport::BackendOptions join = group.join;
  if (!join.log) join.log = log_to(io);
  run_workers(group.transport, join, [&](Transport& wire) {
    // Once more, because transports may have installed handlers of their own.
    end_on_interrupt(io);
    worker(wire);
  });
  return kOk;
}

}  // namespace thinwire::launch
