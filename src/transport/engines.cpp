#include "thinwire/engines.h"

#include <algorithm>
#include <cmath>

#include "thinwire/spec.h"

namespace thinwire {

// list.inc reduced to what this build contains, by CMake.
#define TW_ENGINE(word, in_process, help) \
  void run_##word(const JoinOptions& options, const Worker& worker);
#include "engines_built.inc"
#undef TW_ENGINE

namespace {
#define TW_ENGINE(word, in_process, help) Engine{#word, help, in_process, run_##word},
constexpr Engine kEngines[] = {
#include "engines_built.inc"
};
#undef TW_ENGINE

constexpr std::string_view kAllNames[] = {
#define TW_ENGINE(word, in_process, help) #word,
#include "transport/list.inc"
#undef TW_ENGINE
};
}  // namespace

std::span<const Engine> engines() { return kEngines; }

const Engine& find_engine(std::string_view name) {
  const auto found = std::find_if(std::begin(kEngines), std::end(kEngines),
                                  [&](const Engine& engine) { return engine.name == name; });
  if (found != std::end(kEngines)) return *found;
  if (std::find(std::begin(kAllNames), std::end(kAllNames), name) != std::end(kAllNames)) {
    throw ConfigError("transport '" + std::string(name) +
                      "' is not in this build: install its library (`make deps`) and build again");
  }
  std::vector<std::string> known;
  for (const Engine& engine : kEngines) known.emplace_back(engine.name);
  throw ConfigError(unknown_word("transport", name, known));
}

void run_workers(std::string_view name, const JoinOptions& options, const Worker& worker) {
  const Engine& engine = find_engine(name);
  if (options.size < 1) throw ConfigError("the number of workers must be at least 1");
  if (options.rank < 0 || options.rank >= options.size) {
    throw ConfigError("rank " + std::to_string(options.rank) + " does not exist among " +
                      std::to_string(options.size) + " workers (ranks start at 0)");
  }
  if (!(options.byte_weight > 0) || !std::isfinite(options.byte_weight)) {
    throw ConfigError("a byte must stand for more than 0 bytes, not for " +
                      std::to_string(options.byte_weight));
  }
  if (options.byte_weight != 1 && name != "sim") {
    throw ConfigError("transport '" + std::string(name) +
                      "' carries real bytes: only on sim can a byte stand for " +
                      std::to_string(options.byte_weight));
  }
  if (!options.fault.empty()) check_fault(options.fault, options.size);
  const bool shape = options.network.has_value() && name != "sim";
  if (!shape && options.fault.empty()) return engine.run(options, worker);

  engine.run(options, [&](Transport& joined) {
    std::unique_ptr<Transport> wrapped = joined.lane();
    if (shape) wrapped = make_shaped(std::move(wrapped), *options.network);
    if (!options.fault.empty()) wrapped = make_faulty(std::move(wrapped), options.fault);
    worker(*wrapped);
  });
}

}  // namespace thinwire
