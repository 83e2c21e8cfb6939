// One step of a strategy on a tiny model: whether it can work with that number of workers.
#pragma once

#include <optional>
#include <string>

namespace thinwire::plan {

// Runs one step with as many workers in this process, on `transport` if it runs in one process and
// on `threads` otherwise. Returns why the strategy refuses to begin; nothing if it can work.
std::optional<std::string> refusal_of(const std::string& strategy, const std::string& transport,
                                      int workers);

}  // namespace thinwire::plan
