// The environment as a function, so that tests bring their own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace thinwire::launch {

// The value of a variable; none if it is unset or empty.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

// Of this process. The only getenv of the project.
Environment process_environment();

}  // namespace thinwire::launch
