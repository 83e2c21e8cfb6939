// Forms a group of workers: the transports of this build, and one call that joins the group and
// runs a worker.
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

// The position of this process in the group, and how it finds the other processes.
struct JoinOptions {
  int rank = 0;
  int size = 1;
  std::string master_host = "127.0.0.1";  // the address at which rank 0 listens
  std::uint16_t master_port = 29500;
  // A listening socket that rank 0 inherited from the process that started it; -1: none. Its port
  // is already bound, so no other process can take it.
  int master_socket = -1;
  std::string interface;  // empty: the one that routes to the master
  // A secret. When ranks of `gloo` join, they prove to each other that they know it. It may be
  // empty only if the master address is on loopback, which other machines cannot reach.
  std::string token;
  Seconds join_timeout{30};        // for all ranks to join
  Seconds timeout{60};             // see Transport::set_timeout()
  std::optional<Network> network;  // `sim` simulates it; on the others `shaped` imitates it
  LogSink log;
};

// The work of one rank. The transport is valid during the call.
using Worker = std::function<void(Transport&)>;

// A transport that this build contains.
struct TransportBackend {
  std::string_view name;
  std::string_view help;
  bool in_process;  // all ranks are threads or actors of the calling process; JoinOptions::rank is
                    // ignored
};

// Returns the transports of this build, which live until the process ends. May be called from any
// thread; throws nothing.
TW_EXPORT std::span<const TransportBackend> transport_backends();

// Returns the transport of that name, which lives until the process ends. Throws ConfigError if it
// is unknown or not in this build. May be called from any thread.
TW_EXPORT const TransportBackend& find_backend(std::string_view name);

// Joins the group over the named transport, imitates options.network if it is set, and runs the
// worker: once as options.rank or, if the transport is in process, once for every rank, each on its
// own thread or actor. Returns when all workers of this process have ended. May be called from any
// thread. Throws the first error: ConfigError for invalid options, TransportError if not all ranks
// join or a peer fails, or what a worker threw.
TW_EXPORT void run_workers(std::string_view transport, const JoinOptions& options,
                           const Worker& worker);

}  // namespace thinwire
