// Strategies at work, on any transport with real or simulated tasks.
#pragma once

#include "thinwire/transport.h"

namespace thinwire::laws {

// Workers of different speeds with different models: they end with the same one, the mean.
void check_asynchronous(Transport& wire);

// Workers beside servers, or one server alone: all get the same gradient, which is that of the
// workers.
void check_server(Transport& wire);

// Every registered strategy takes a few steps, makes a checkpoint and ends: with the same model.
void check_every_strategy(Transport& wire);

}  // namespace thinwire::laws
