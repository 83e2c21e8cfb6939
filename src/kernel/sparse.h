// Operations on sparse vectors. The k largest entries are those of largest magnitude, compared as
// in kernel/topk.h.
#pragma once

#include "thinwire/types.h"

namespace thinwire::kernel {

// out = a + b; entries at equal indices are added, also if they cancel to 0. `out` is neither a nor
// b.
void merge(const Sparse& a, const Sparse& b, Sparse& out);

// Keeps the k largest entries of `entries`; `dropped` becomes the others. Both in index order.
void cut(Sparse& entries, std::size_t k, Sparse& dropped);

}  // namespace thinwire::kernel
