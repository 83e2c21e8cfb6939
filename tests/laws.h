// What every transport promises, as functions that run on all ranks of a group.
#pragma once

#include <ostream>
#include <span>
#include <string_view>

#include "thinwire/launch.h"

namespace thinwire::laws {

struct Law {
  std::string_view name;
  int ranks;
  Worker check;  // throws if the law is broken
};

inline std::ostream& operator<<(std::ostream& out, const Law& law) { return out << law.name; }

std::span<const Law> all();
// Not a law but a scenario for tests that kill a rank: four ranks talk to their neighbours in a
// ring until an error ends it (or a minute has passed). Each prints "chatting" once it does.
const Law& chatter();
// More such scenarios, each named by a sparse strategy: four ranks exchange gradients by it until
// an error ends it. Each survivor prints "lost nothing", or what it lost.
std::span<const Law> exchanges();
// law_worker prints the fields of an error as JSON in a line that begins with this.
inline constexpr const char* kFieldsPrefix = "law_worker fields: ";

// Returns the law or the scenario of that name. Throws ConfigError if there is none.
const Law& find(std::string_view name);

}  // namespace thinwire::laws
