// thinwire bench select: what it costs to find the entries worth sending.
#pragma once

#include "cli/command.h"

namespace thinwire::cli {

void add_bench_select(CLI::App& bench, Invocation& invocation);

}  // namespace thinwire::cli
