// The engines that carry a Transport, and how a group of workers comes together on each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/log.h"
#include "thinwire/network.h"
#include "thinwire/transport.h"

namespace thinwire {

// Where this process stands in the group and how to find the others.
struct JoinOptions {
  int rank = 0;
  int size = 1;
  std::string master_host = "127.0.0.1";  // rank 0 listens there
  std::uint16_t master_port = 29500;
  // A listening socket that rank 0 inherited, which spares the search for a free port; -1: none.
  int master_socket = -1;
  std::string interface;  // empty: the one that routes to the master
  // A secret that the ranks of `gloo` prove to each other when they join. May be empty only if the
  // master is on loopback, where other machines cannot come.
  std::string token;
  Seconds join_timeout{30};        // for the whole group to come together
  Seconds timeout{60};             // Transport::set_timeout
  std::optional<Network> network;  // `sim` simulates it; on the others `shaped` imitates it
  double byte_weight = 1;          // Runtime::byte_weight of `sim`, whose links slow down as much
  std::string fault;               // a `faulty` spec such as "kill:rank=1,at=20"; empty: none
  LogSink log;
};

using Worker = std::function<void(Transport&)>;

struct Engine {
  std::string_view name;
  std::string_view help;
  bool in_process;  // all ranks live in the calling process, `rank` is ignored
  // Runs the worker: once as options.rank, or, in process, once for every rank. Returns when all
  // workers of this process have ended and throws the first error.
  void (*run)(const JoinOptions& options, const Worker& worker);
};

// The engines of this build.
std::span<const Engine> engines();

// The engine of that name. ConfigError if it is unknown or not in this build.
const Engine& find_engine(std::string_view name);

// Joins by the named engine and applies options.network and options.fault.
void run_workers(std::string_view engine, const JoinOptions& options, const Worker& worker);

// A token bucket for sending, one for receiving, and latency, around a transport whose ranks all
// live on one machine (they must share a clock).
std::unique_ptr<Transport> make_shaped(std::unique_ptr<Transport> inner, const Network& network);

// Misbehaves once, for tests: see faulty.cpp for the spec. ConfigError if it is not valid.
void check_fault(std::string_view spec, int size);
std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, std::string_view spec);

}  // namespace thinwire
