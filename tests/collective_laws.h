// Every collective, called and checked on one rank of a group of any size, on any transport.
#pragma once

#include <span>
#include <string_view>

#include "thinwire/transport.h"

namespace thinwire::laws {

struct CollectiveLaw {
  std::string_view name;
  // Throws if the result is wrong. numel: elements per rank, more or less.
  void (*check)(Transport& wire, std::size_t numel);
};

std::span<const CollectiveLaw> collectives();

// All of them, with little data and with enough to be cut in chunks.
void check_collectives(Transport& wire);

}  // namespace thinwire::laws
