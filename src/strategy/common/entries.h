// Functions on sparse vectors that several strategies use.
#pragma once

#include <cstddef>

#include "thinwire/types.h"

namespace thinwire::strategy {

// Removes the entries whose value is 0: they would take bytes and change nothing.
inline void drop_zeros(Sparse& entries) {
  std::size_t kept = 0;
  for (std::size_t j = 0; j < entries.size(); ++j) {
    if (entries.values[j] == 0) continue;
    entries.indices[kept] = entries.indices[j];
    entries.values[kept++] = entries.values[j];
  }
  entries.indices.resize(kept);
  entries.values.resize(kept);
}

}  // namespace thinwire::strategy
