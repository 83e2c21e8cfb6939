#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace thinwire::base {

std::uint64_t hash64(Bytes data) noexcept { return XXH3_64bits(data.data(), data.size()); }

}  // namespace thinwire::base
