// Finds the rank of this process, the number of workers and the address of rank 0, from flags or
// from the environment variables that a launcher sets. All functions are pure: they open no file
// and resolve no host name.
//
// The sources are tried in this order: --rank and --world-size; torchrun; Open MPI's mpirun; PMI
// (MPICH's mpiexec, srun --mpi=pmi2); Slurm's srun. If none is there, the user started thinwire
// without a launcher.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/environment.h"

namespace thinwire::launch {

struct PlaceFlags {
  std::optional<int> rank;
  std::optional<int> world_size;
  std::optional<std::string> master;  // HOST:PORT, or HOST for kDefaultPort
  std::string interface;
};

enum class Launcher { flags, torchrun, open_mpi, pmi, slurm };

struct Place {
  Launcher launcher;
  std::string source;  // "torchrun", for messages
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 0;  // workers on this machine; 0: the launcher did not say
};

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

inline constexpr std::uint16_t kDefaultPort = 29500;  // also the default of torchrun
// Jobs whose launcher names no port take one of this range, chosen by the id of the job. The range
// is below the ports that Linux gives to outgoing connections.
inline constexpr std::uint16_t kFirstJobPort = 20000;
inline constexpr std::uint16_t kJobPorts = 9500;

// Returns nothing if there is no launcher. Throws ConfigError, which names the variable, its value
// and the expected values, if the launcher's variables are incomplete or contradict each other.
std::optional<Place> discover(const PlaceFlags& flags, const Environment& env);

// Returns the address at which rank 0 listens: --master, MASTER_ADDR and MASTER_PORT, the first
// host of Slurm's list, or this machine if all workers are on it. Throws ConfigError, which says
// what to pass, if none of them is known.
//
// torchrun with its static rendezvous uses MASTER_PORT itself and sets
// TORCHELASTIC_USE_AGENT_STORE=True; rank 0 then listens on the next port.
Endpoint find_master(const PlaceFlags& flags, const Environment& env, const Place& place);

// Returns --interface or else GLOO_SOCKET_IFNAME. An empty name means the interface that routes to
// rank 0.
std::string find_interface(const PlaceFlags& flags, const Environment& env);

// Returns whether a launcher that MPI_Init understands started this process.
bool under_mpi_launcher(const Environment& env);

}  // namespace thinwire::launch
