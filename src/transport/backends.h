// What the transports implement, and what only tests and the planner may ask of them.
#pragma once

#include <memory>
#include <string>

#include "thinwire/launch.h"

namespace thinwire::transport {

struct BackendOptions : JoinOptions {
  BackendOptions() = default;
  BackendOptions(const JoinOptions& options) : JoinOptions(options) {}

  // `sim` only: how many bytes one byte of payload represents, so that a part of a large model
  // takes the time of the whole. Links slow down by the same factor.
  double payload_scale = 1;
  std::string fault;  // a spec of wrappers/faulty.cpp such as "kill:rank=1,at=20"; empty: none
};

// Does what thinwire::run_workers does, with these options.
void run_workers(std::string_view transport, const BackendOptions& options, const Worker& worker);

// Returns `inner` behind a token bucket for sending, one for receiving, and a latency. The ranks of
// `inner` must share a clock, hence a machine.
std::unique_ptr<Transport> make_shaped(std::unique_ptr<Transport> inner, const Network& network);

// Returns `inner` with one fault, for tests. Both throw ConfigError if the spec is not valid.
std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, std::string_view spec);
void check_fault(std::string_view spec, int size);

}  // namespace thinwire::transport
