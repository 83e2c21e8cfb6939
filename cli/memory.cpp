#include "cli/memory.h"

#include <malloc.h>

namespace thinwire::cli {

void give_memory_back() { malloc_trim(0); }

}  // namespace thinwire::cli
