#include "transport/backends.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/spec.h"

namespace thinwire {
namespace transport {

// CMake generates this file: the lines of list.inc whose transports are in this build.
#define TW_TRANSPORT(word, in_process, help) \
  void run_##word(const BackendOptions& options, const Worker& worker);
#include "transports_built.inc"
#undef TW_TRANSPORT

namespace {

using Run = void (*)(const BackendOptions& options, const Worker& worker);

#define TW_TRANSPORT(word, in_process, help) TransportBackend{#word, help, in_process},
constexpr TransportBackend kBackends[] = {
#include "transports_built.inc"
};
#undef TW_TRANSPORT

// The function of each entry of kBackends.
#define TW_TRANSPORT(word, in_process, help) run_##word,
constexpr Run kRuns[] = {
#include "transports_built.inc"
};
#undef TW_TRANSPORT

constexpr std::string_view kAllNames[] = {
#define TW_TRANSPORT(word, in_process, help) #word,
#include "transport/list.inc"
#undef TW_TRANSPORT
};

void check(std::string_view name, const BackendOptions& options) {
  if (options.size < 1) {
    throw ConfigError(
        fmt::format("group: too few workers ({}); at least 1 is needed", options.size));
  }
  if (options.rank < 0 || options.rank >= options.size) {
    throw ConfigError(fmt::format("group: rank out of range ({}; {} workers); ranks start at 0",
                                  options.rank, options.size));
  }
  if (!(options.payload_scale > 0) || !std::isfinite(options.payload_scale)) {
    throw ConfigError(
        fmt::format("group: payload scale out of range ({}); a positive number is needed",
                    options.payload_scale));
  }
  if (options.payload_scale != 1 && name != "sim") {
    throw ConfigError(fmt::format("transport {}: payload scale not supported ({}); use sim", name,
                                  options.payload_scale));
  }
  if (!options.fault.empty()) check_fault(options.fault, options.size);
}

}  // namespace

void run_workers(std::string_view name, const BackendOptions& options, const Worker& worker) {
  const Run run = kRuns[&find_backend(name) - kBackends];
  check(name, options);
  const bool shape = options.network.has_value() && name != "sim";
  if (!shape && options.fault.empty()) return run(options, worker);

  run(options, [&](Transport& joined) {
    std::unique_ptr<Transport> wrapped = joined.lane();
    if (shape) wrapped = make_shaped(std::move(wrapped), *options.network);
    if (!options.fault.empty()) wrapped = make_faulty(std::move(wrapped), options.fault);
    worker(*wrapped);
  });
}

}  // namespace transport

std::span<const TransportBackend> transport_backends() { return transport::kBackends; }

const TransportBackend& find_backend(std::string_view name) {
  const auto backends = transport_backends();
  const auto found = std::ranges::find(backends, name, &TransportBackend::name);
  if (found != backends.end()) return *found;
  if (std::ranges::find(transport::kAllNames, name) != std::end(transport::kAllNames)) {
    throw ConfigError(fmt::format(
        "transport {}: not in this build; install its library (`make deps`) and build again",
        name));
  }
  std::vector<std::string> known;
  for (const TransportBackend& backend : backends) known.emplace_back(backend.name);
  throw ConfigError(base::unknown_name("transport", name, known));
}

void run_workers(std::string_view name, const JoinOptions& options, const Worker& worker) {
  transport::run_workers(name, transport::BackendOptions(options), worker);
}

}  // namespace thinwire
