// thinwire bench codec: what it costs to turn a gradient into bytes, and how few they are.
#pragma once

#include "cli/command.h"

namespace thinwire::cli {

void add_bench_codec(CLI::App& bench, Invocation& invocation);

}  // namespace thinwire::cli
