// Refuses what does not fit into memory before the kernel does it less politely.
#pragma once

#include "trainer/data/memory.h"

namespace thinwire::cli {

using trainer::available_memory;

// What was freed but is kept for the next use returns to the system, where it counts as available.
void give_memory_back();

}  // namespace thinwire::cli
