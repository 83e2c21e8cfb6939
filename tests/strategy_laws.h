// Strategies at work, on any transport with real or simulated tasks.
#pragma once

#include "thinwire/transport.h"

namespace thinwire::laws {

// Workers of different speeds with different models: they end with the same one, the mean.
void check_asynchronous(Transport& wire);

// Workers next to servers, or one server alone: all get the same gradient, which is that of the
// workers.
void check_server(Transport& wire);

// Every registered strategy, with 1, 2 and 7 buckets, skips a step with a gradient that is not
// finite, goes on from a checkpoint and ends with the same model on all ranks: unless it is
// asynchronous, with the one that ranks on `threads` have, bit for bit.
void check_every_strategy(Transport& wire);

}  // namespace thinwire::laws
