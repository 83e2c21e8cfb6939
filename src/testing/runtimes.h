// For tests: the backends of this build, and the runtimes that run in one process.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "thinwire/launch.h"

namespace thinwire::test {

// Returns whether this build has the transport of that name.
inline bool has_backend(std::string_view name) {
  return std::ranges::any_of(transport_backends(),
                             [&](const TransportBackend& backend) { return backend.name == name; });
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
    if (!has_backend(transport)) continue;
    SCOPED_TRACE(transport);
    on_runtime(transport, code);
  }
}

}  // namespace thinwire::test
