// How a group of workers comes together: the transports of this build, and one call that joins the
// group and runs a worker.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/export.h"
#include "thinwire/transport.h"
#include "thinwire/types.h"

namespace thinwire {

// Where this process stands in the group, and how it finds the others.
struct JoinOptions {
  int rank = 0;
  int size = 1;
  std::string master_host = "127.0.0.1";  // rank 0 listens there
  std::uint16_t master_port = 29500;
  // A listening socket that rank 0 inherited, which spares the search for a free port; -1: none.
  int master_socket = -1;
  std::string interface;  // empty: the one that routes to the master
  // A secret that the ranks of `gloo` prove to each other when they join. May be empty only if the
  // master is on loopback, which other machines cannot reach.
  std::string token;
  Seconds join_timeout{30};        // for the whole group to come together
  Seconds timeout{60};             // Transport::set_timeout
  std::optional<Network> network;  // `sim` simulates it; on the others `shaped` imitates it
  LogSink log;
};

// The work of one rank. The transport is valid for the call.
using Worker = std::function<void(Transport&)>;

// A transport that this build contains.
struct TransportBackend {
  std::string_view name;
  std::string_view help;
  bool in_process;  // all ranks live in the calling process, JoinOptions::rank is ignored
};

// Returns the transports of this build. May be called from any thread.
TW_EXPORT std::span<const TransportBackend> transport_backends();

// Returns the transport of that name. Throws ConfigError if it is unknown or not in this build.
TW_EXPORT const TransportBackend& find_backend(std::string_view name);

// Joins the group by the named transport, imitates options.network if it is set, and runs the
// worker: once as options.rank or, in process, once for every rank. Returns when all workers of
// this process have ended, and throws the first error: ConfigError for options that cannot work,
// TransportError if the group does not come together or a peer fails, or what a worker threw.
TW_EXPORT void run_workers(std::string_view transport, const JoinOptions& options,
                           const Worker& worker);

}  // namespace thinwire
