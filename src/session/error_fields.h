// The fields of the errors that a session throws.
#pragma once

#include <string>
#include <utility>

#include "thinwire/error.h"
#include "thinwire/transport.h"

namespace thinwire::session {

// Returns the fields of an error of this rank; `peer` is the rank to blame, or kNoRank.
inline ErrorFields error_fields(const Transport& wire, std::string operation, int peer = kNoRank,
                                Remedy remedy = Remedy::none) {
  ErrorFields out;
  out.rank = wire.rank();
  out.peer = peer;
  if (peer != kNoRank) out.host = wire.host(peer);
  out.operation = std::move(operation);
  out.remedy = remedy;
  return out;
}

}  // namespace thinwire::session
