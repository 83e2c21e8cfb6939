#include "launch/discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/number.h"
#include "launch/hostlist.h"
#include "thinwire/error.h"

namespace thinwire::launch {
namespace {

constexpr int kMostWorkers = 1 << 20;

struct Variables {
  Launcher launcher;
  std::string_view name;
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
};
constexpr Variables kLaunchers[] = {
    {Launcher::torchrun, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {Launcher::open_mpi, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::pmi, "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {Launcher::slurm, "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
};

// Returns a whole number within bounds. `what` is the flag or variable that an error names.
int whole_number(std::string_view what, std::string_view text, int lowest, int highest) {
  const auto value = base::parse_number<int>(text);
  if (!value || *value < lowest || *value > highest) {
    throw ConfigError(
        fmt::format("{}={}: not a whole number of {} ... {}", what, text, lowest, highest));
  }
  return *value;
}

std::optional<int> read(const Environment& env, std::string_view variable, int lowest,
                        int highest) {
  if (variable.empty()) return std::nullopt;
  const auto text = env(variable);
  if (!text) return std::nullopt;
  return whole_number(variable, *text, lowest, highest);
}

void check_rank(std::string_view what, int rank, std::string_view size_name, int size) {
  if (rank >= size) {
    throw ConfigError(fmt::format("{}={}: there is no such rank ({}={}); ranks are 0 ... {}", what,
                                  rank, size_name, size, size - 1));
  }
}

// Returns the hosts of the step in which srun started this process, or else of the job.
std::optional<std::vector<std::string>> slurm_hosts(const Environment& env) {
  for (const std::string_view variable :
       {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (const auto list = env(variable)) return expand_hostlist(*list, variable);
  }
  return std::nullopt;
}

Place from_flags(const PlaceFlags& flags) {
  if (!flags.rank)
    throw ConfigError("--world-size: --rank is missing; give the number of this worker, too");
  if (!flags.world_size)
    throw ConfigError("--rank: --world-size is missing; give the number of workers, too");
  const int size = *flags.world_size;
  if (size < 1 || size > kMostWorkers) {
    throw ConfigError(fmt::format("--world-size {}: out of range (1 ... {})", size, kMostWorkers));
  }
  if (*flags.rank < 0) {
    throw ConfigError(
        fmt::format("--rank {}: there is no such rank; ranks are 0 ... {}", *flags.rank, size - 1));
  }
  check_rank("--rank", *flags.rank, "--world-size", size);
  return {Launcher::flags, "--rank and --world-size", *flags.rank, size, 0, size == 1 ? 1 : 0};
}

Place from_launcher(const Variables& names, const Environment& env) {
  // A step may have fewer tasks than the job whose SLURM_NTASKS it inherits.
  const bool step = names.launcher == Launcher::slurm && env("SLURM_STEP_NUM_TASKS").has_value();
  const std::string_view size_name = step ? "SLURM_STEP_NUM_TASKS" : names.size;
  const auto rank = read(env, names.rank, 0, kMostWorkers - 1);
  const auto size = read(env, size_name, 1, kMostWorkers);
  if (!rank || !size) {
    throw ConfigError(
        fmt::format("{}={}: {} is not set, but {} sets both; unset the former to start workers on "
                    "this machine, or give --rank and --world-size",
                    rank ? names.rank : size_name, rank ? *rank : *size,
                    rank ? size_name : names.rank, names.name));
  }
  check_rank(names.rank, *rank, size_name, *size);

  Place place{names.launcher, std::string(names.name), *rank, *size, 0, 0};
  place.local_rank = read(env, names.local_rank, 0, kMostWorkers - 1).value_or(0);
  if (const auto local_size = read(env, names.local_size, 1, *size)) {
    place.local_size = *local_size;
    check_rank(names.local_rank, place.local_rank, names.local_size, *local_size);
  } else if (names.launcher == Launcher::slurm) {
    const auto hosts = slurm_hosts(env);
    if (hosts && hosts->size() == 1) place.local_size = *size;
  }
  return place;
}

Endpoint parse_endpoint(std::string_view text) {
  const auto refuse = [&] {
    return ConfigError(
        fmt::format("--master {}: not HOST:PORT; examples: node1:29500  [fd00::1]:29500", text));
  };
  std::string_view host = text, port;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) throw refuse();
    host = text.substr(1, close - 1);
    port = text.substr(close + 1);
  } else if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (host.empty() || port == ":" || (!port.empty() && port.front() != ':')) throw refuse();
  if (port.empty()) return {std::string(host), kDefaultPort};
  return {std::string(host), static_cast<std::uint16_t>(
                                 whole_number("the port of --master", port.substr(1), 1, 65535))};
}

// Returns the same port on every worker of a job, and most likely another one for another job.
std::uint16_t job_port(const Environment& env, Launcher launcher) {
  std::string id;
  const auto append = [&](std::initializer_list<std::string_view> variables) {
    for (const std::string_view variable : variables) id += env(variable).value_or("") + ".";
  };
  if (launcher == Launcher::open_mpi) {
    append({"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"});
  } else {
    append({"PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"});
  }
  if (std::ranges::all_of(id, [](char c) { return c == '.'; })) return kDefaultPort;
  return static_cast<std::uint16_t>(kFirstJobPort +
                                    base::hash64(std::as_bytes(std::span(id))) % kJobPorts);
}

Endpoint master_from_variables(const Environment& env, const Place& place, std::string host) {
  int port = read(env, "MASTER_PORT", 1, 65535).value_or(kDefaultPort);
  const std::string agent_store = env("TORCHELASTIC_USE_AGENT_STORE").value_or("");
  if (place.launcher == Launcher::torchrun && (agent_store == "True" || agent_store == "1")) {
    if (++port > 65535) {
      throw ConfigError(
          "MASTER_PORT=65535: torchrun keeps this port itself and thinwire takes the next one, "
          "which does not exist; give torchrun another --master_port");
    }
  }
  return {std::move(host), static_cast<std::uint16_t>(port)};
}

}  // namespace

std::optional<Place> discover(const PlaceFlags& flags, const Environment& env) {
  if (flags.rank || flags.world_size) return from_flags(flags);
  for (const Variables& names : kLaunchers) {
    // The shell of a Slurm job has SLURM_NTASKS, too; only tasks have a SLURM_PROCID.
    const bool has_size = names.launcher != Launcher::slurm && env(names.size).has_value();
    if (env(names.rank).has_value() || has_size) return from_launcher(names, env);
  }
  return std::nullopt;
}

Endpoint find_master(const PlaceFlags& flags, const Environment& env, const Place& place) {
  if (flags.master) return parse_endpoint(*flags.master);
  if (auto host = env("MASTER_ADDR"); host && place.launcher != Launcher::flags) {
    return master_from_variables(env, place, std::move(*host));
  }
  if (place.local_size == place.size) return {"127.0.0.1", job_port(env, place.launcher)};
  if (place.launcher == Launcher::slurm || place.launcher == Launcher::pmi) {
    if (const auto hosts = slurm_hosts(env)) return {hosts->front(), job_port(env, place.launcher)};
  }
  throw ConfigError(fmt::format(
      "master: the address of rank 0 is unknown (rank and size come from {}); give --master "
      "HOST:PORT or set MASTER_ADDR and MASTER_PORT, the same for all {} workers, where HOST is "
      "the machine of rank 0",
      place.source, place.size));
}

std::string find_interface(const PlaceFlags& flags, const Environment& env) {
  return flags.interface.empty() ? env("GLOO_SOCKET_IFNAME").value_or("") : flags.interface;
}

bool under_mpi_launcher(const Environment& env) {
  const std::string_view kNames[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                     "SLURM_PROCID"};
  return std::ranges::any_of(kNames, [&](std::string_view name) { return env(name).has_value(); });
}

}  // namespace thinwire::launch
