// Adds the sender to the error of an unreadable message.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "thinwire/error.h"
#include "thinwire/transport.h"

namespace thinwire::transport {

// Calls `read`, which reads a message that rank `from` sent. A WireError that it throws becomes one
// that names that rank and its host, in its text and in its fields.
template <class Read>
void name_sender(const Transport& wire, int from, Read read) {
  try {
    read();
  } catch (const WireError& error) {
    ErrorFields fields = error.fields();
    fields.rank = wire.rank();
    fields.peer = from;
    fields.host = wire.host(from);
    fields.operation = "receive";
    fields.remedy = Remedy::match_options;
    throw WireError(
        fmt::format("rank {}: rank {} ({}) sent an unreadable message ({}); all ranks must run the "
                    "same version, model and options",
                    wire.rank(), from, wire.host(from), error.what()),
        std::move(fields));
  }
}

}  // namespace thinwire::transport
