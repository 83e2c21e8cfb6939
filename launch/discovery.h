// Where this process stands among the workers: from flags, or from what its launcher left in the
// environment. Pure functions; nothing is opened or resolved here.
//
// In this order: --rank and --world-size; torchrun; Open MPI's mpirun; PMI (MPICH's mpiexec, srun
// --mpi=pmi2); Slurm's srun. If none of them speaks, the user started thinwire by hand.
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

inline constexpr std::uint16_t kDefaultPort = 29500;  // torchrun's, too
// Where jobs whose launcher names no port meet: a port of this range, chosen by the job's id. Below
// the ports that Linux hands out to outgoing connections.
inline constexpr std::uint16_t kFirstJobPort = 20000;
inline constexpr std::uint16_t kJobPorts = 9500;

// None if started by hand. ConfigError, naming the variable, its value and what is expected, if the
// launcher's variables are incomplete or contradict each other.
std::optional<Place> discover(const PlaceFlags& flags, const Environment& env);

// Where rank 0 listens: --master, MASTER_ADDR and MASTER_PORT, the first host of Slurm's list, or
// this machine if all workers are on it. ConfigError, saying what to pass, if none of them is
// known.
//
// torchrun with its static rendezvous keeps MASTER_PORT for itself and says so by
// TORCHELASTIC_USE_AGENT_STORE=True; rank 0 then listens on the next port.
Endpoint find_master(const PlaceFlags& flags, const Environment& env, const Place& place);

// --interface, else GLOO_SOCKET_IFNAME, else empty: the one that routes to the master.
std::string find_interface(const PlaceFlags& flags, const Environment& env);

// Whether a launcher that MPI_Init understands started this process.
bool under_mpi_launcher(const Environment& env);

}  // namespace thinwire::launch
