// Small work on sparse vectors that strategies share.
#pragma once

namespace thinwire::strategy {

// Entries of value 0 tell nobody anything.
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
