#include <map>
#include <string>

#include "fuzz/target.h"
#include "launch/discovery.h"

namespace thinwire::fuzz {
namespace {

// Parses lines of the form NAME=value.
std::map<std::string, std::string, std::less<>> parse(std::string_view text) {
  std::map<std::string, std::string, std::less<>> out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    out[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  return out;
}

}  // namespace

// One of the lines is the value of `--master`.
void launcher_variables(Bytes input) {
  const auto variables = parse(Choices(input).text());
  const launch::Environment env = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
  accept_or_refuse<ConfigError>([&] {
    launch::PlaceFlags flags;
    flags.master = env("--master");
    const auto place = launch::discover(flags, env);
    if (!place) return;
    demand(place->rank >= 0 && place->rank < place->size);
    demand(launch::find_master(flags, env, *place).port != 0);
  });
}

}  // namespace thinwire::fuzz
