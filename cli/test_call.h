// For tests: a command in this process, with an environment of its own.
#pragma once

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"

namespace thinwire::cli {

using Variables = std::map<std::string, std::string, std::less<>>;

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

inline Outcome call(std::vector<std::string> arguments, const Variables& variables = {}) {
  std::ostringstream out, err;
  launch::Io io{out, err, [&](std::string_view name) -> std::optional<std::string> {
                  const auto found = variables.find(name);
                  return found == variables.end() ? std::nullopt : std::optional(found->second);
                }};
  const int code = run(std::move(arguments), io);
  return {code, out.str(), err.str()};
}

}  // namespace thinwire::cli
