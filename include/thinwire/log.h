// The library never prints: whoever owns a session passes in where its messages go.
#pragma once

#include <functional>
#include <string_view>

namespace thinwire {

enum class LogLevel { debug, info, warning, error };

// Called from any thread of the library; must be safe for that. An empty sink discards.
using LogSink = std::function<void(LogLevel, std::string_view)>;

}  // namespace thinwire
