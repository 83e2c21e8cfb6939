// Who sent what turned out to be foreign.
#pragma once

#include <fmt/format.h>

#include "thinwire/error.h"
#include "thinwire/transport.h"

namespace thinwire::transport {

// Runs what reads a message of that rank. A WireError becomes one that names the rank and its host.
template <class Read>
void name_sender(const Transport& wire, int from, Read read) {
  try {
    read();
  } catch (const WireError& error) {
    throw WireError(fmt::format(
        "rank {}: rank {} ({}) sent what cannot be used: {}. All ranks must run the same version, "
        "model and options.",
        wire.rank(), from, wire.host(from), error.what()));
  }
}

}  // namespace thinwire::transport
