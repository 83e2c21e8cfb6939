// Strategies whose workers train at their own speed, on any transport with real or simulated tasks.
#pragma once

#include "thinwire/transport.h"

namespace thinwire::laws {

// Workers of different speeds with different models: they end with the same one, the mean.
void check_free_pace(Transport& wire);

}  // namespace thinwire::laws
