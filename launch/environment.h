// The environment as a function, so that tests can pass their own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace thinwire::launch {

// Returns the value of a variable; nothing if it is unset or empty.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

// Returns the environment of this process. No other function of the project calls getenv().
Environment process_environment();

}  // namespace thinwire::launch
