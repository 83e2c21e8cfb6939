// Detection of values that are not finite.
#pragma once

#include "kernel/finite.h"
#include "thinwire/types.h"

namespace thinwire::kernel {

// Returns false if any value is infinite or not a number.
bool all_finite(Floats values);

}  // namespace thinwire::kernel
