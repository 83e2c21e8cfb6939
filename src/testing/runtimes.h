// For tests of time and concurrency: the runtimes that run in one process.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "thinwire/launch.h"

namespace thinwire::test {

inline bool in_this_build(std::string_view transport) {
  return std::ranges::any_of(transport_backends(), [&](const TransportBackend& backend) {
    return backend.name == transport;
  });
}

// Calls `code` on one worker of the named transport, with its runtime.
inline void on_runtime(const char* transport, const std::function<void(Runtime&)>& code) {
  JoinOptions options;
  options.size = 1;
  run_workers(transport, options, [&](Transport& wire) { code(wire.runtime()); });
}

// Calls `code` once in real and, if this build has the simulator, once in virtual time.
inline void on_each_runtime(const std::function<void(Runtime&)>& code) {
  for (const char* transport : {"threads", "sim"}) {
    if (!in_this_build(transport)) continue;
    SCOPED_TRACE(transport);
    on_runtime(transport, code);
  }
}

}  // namespace thinwire::test
