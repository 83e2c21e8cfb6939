// What all ranks must have in common before they train together.
#pragma once

#include <span>
#include <string>

#include "thinwire/transport.h"

namespace thinwire::session {

// An option of a run as text, under the name by which a refusal mentions it.
struct NamedValue {
  std::string name;
  std::string value;
};

// Called by all ranks together, each with its own values; names are unique. Returns if all ranks
// have the same names and values. Otherwise throws ConfigError on every rank, which says for each
// name that differs which ranks have which value; the error blames the first rank that differs from
// rank 0. Ranks that agree exchange 8 bytes each, whatever the number of values.
void require_agreement(Transport& wire, std::span<const NamedValue> mine);

}  // namespace thinwire::session
