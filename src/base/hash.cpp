#include "thinwire/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace thinwire {

std::uint64_t hash64(Bytes data) noexcept { return XXH3_64bits(data.data(), data.size()); }

}  // namespace thinwire
