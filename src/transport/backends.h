// The internal interface of the transports, with the options that only tests and the planner use.
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
  std::string fault;  // see wrappers/faulty.cpp, for example "kill:rank=1,at=20"; empty: none
};

// Does what thinwire::run_workers does, with these options.
void run_workers(std::string_view transport, const BackendOptions& options, const Worker& worker);

// Returns a transport around `inner` that imitates a network: a token bucket for sending, one for
// receiving, and a latency. Called by all ranks together. Throws ConfigError unless all ranks run
// on one machine, because they must share a clock.
std::unique_ptr<Transport> make_shaped(std::unique_ptr<Transport> inner, const Network& network);

// Returns a transport around `inner` that injects one fault, for tests. Both functions throw
// ConfigError if the spec is not valid.
std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, std::string_view spec);
void check_fault(std::string_view spec, int size);

}  // namespace thinwire::transport
