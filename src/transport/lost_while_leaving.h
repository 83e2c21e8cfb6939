// The error of a rank that has finished its work, but does not get the final message of another
// rank when the group ends.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "thinwire/error.h"
#include "thinwire/transport.h"

namespace thinwire::transport {

inline TransportError lost_while_leaving(const Transport& wire, int missing, Seconds waited,
                                         std::string_view reason) {
  ErrorFields fields;
  fields.rank = wire.rank();
  fields.peer = missing;
  fields.host = wire.host(missing);
  fields.operation = "leave";
  fields.seconds = waited;
  return {TransportError::Kind::lost,
          fmt::format("rank {} ({}): lost rank {} ({}) while leaving the group: {}; all work "
                      "of this rank is done",
                      wire.rank(), wire.host(wire.rank()), missing, wire.host(missing), reason),
          std::move(fields)};
}

}  // namespace thinwire::transport
