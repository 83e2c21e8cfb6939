// What every transport promises, as functions that run on all ranks of a group.
#pragma once

#include <span>
#include <string_view>

#include "thinwire/engines.h"

namespace thinwire::laws {

struct Law {
  std::string_view name;
  int ranks;
  Worker check;  // throws if the law is broken
};

std::span<const Law> all();
const Law& find(std::string_view name);

}  // namespace thinwire::laws
