// Strategies that need tasks and lanes, on any transport with real or simulated ones.
#pragma once

#include "thinwire/transport.h"

namespace thinwire::laws {

// Workers of different speeds with different models: they end with the same one, the mean.
void check_free_pace(Transport& wire);

// Workers beside servers, or one server alone: all get the same gradient, which is that of the
// workers.
void check_server(Transport& wire);

}  // namespace thinwire::laws
