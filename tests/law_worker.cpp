// One rank that checks one law:
//   law_worker TRANSPORT LAW [--rank R] [--size P] [--master HOST:PORT] [--timeout S]
//              [--network BW,LAT] [--fault SPEC] [--repeat N]
// Exits 0 if the law holds; prints the error, and its fields as JSON after kFieldsPrefix, and exits
// 1 if it does not; exits 2 on bad usage.
// --repeat joins and checks N times in this process, even if one time fails.
// The size is the law's own unless --size is given; on `mpi` the rank is the one that mpirun gave.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/number.h"
#include "observe/events.h"
#include "tests/laws.h"
#include "transport/backends.h"

namespace thinwire {
namespace {

using Flags = std::map<std::string, std::string, std::less<>>;

Flags parse_flags(std::span<char*> words) {
  static constexpr std::string_view kKnown[] = {"--rank",    "--size",  "--master", "--timeout",
                                                "--network", "--fault", "--repeat"};
  Flags flags;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (std::ranges::find(kKnown, std::string_view(words[i])) == std::end(kKnown)) {
      throw ConfigError(fmt::format("law_worker does not know '{}'", words[i]));
    }
    if (i + 1 == words.size()) throw ConfigError(fmt::format("{} needs a value", words[i]));
    flags[words[i]] = words[i + 1];
  }
  return flags;
}

int integer(std::string_view name, std::string_view text) {
  const auto value = base::parse_number<int>(text);
  if (!value) throw ConfigError(fmt::format("{} needs an integer, not '{}'", name, text));
  return *value;
}

int launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* value = std::getenv(name)) return integer(name, value);
  }
  return 0;
}

transport::BackendOptions join_options(std::string_view transport, const laws::Law& law,
                                       const Flags& flags) {
  transport::BackendOptions options;
  options.size = law.ranks;
  options.join_timeout = Seconds(60);  // for a busy machine
  options.timeout = Seconds(60);
  if (transport == "mpi") options.rank = launched_rank();
  for (const auto& [name, value] : flags) {
    if (name == "--rank") options.rank = integer(name, value);
    if (name == "--size") options.size = integer(name, value);
    if (name == "--timeout") options.timeout = options.join_timeout = Seconds(std::stod(value));
    if (name == "--network") options.network = Network::parse(value);
    if (name == "--fault") options.fault = value;
    if (name == "--master") {
      const std::size_t colon = value.rfind(':');
      if (colon == std::string::npos) throw ConfigError("--master needs HOST:PORT");
      options.master_host = value.substr(0, colon);
      options.master_port = static_cast<std::uint16_t>(integer(name, value.substr(colon + 1)));
    }
  }
  return options;
}

// Runs the action and returns whether it succeeded; prints the error if it failed.
template <class Action>
bool report(Action action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    std::fprintf(stderr, "law_worker: %s\n%s%s\n", error.what(), laws::kFieldsPrefix,
                 observe::to_json(error.fields()).dump().c_str());
    return false;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "law_worker: %s\n", error.what());
    return false;
  }
}

int run(std::span<char*> words) {
  if (words.size() < 3) {
    std::fprintf(stderr, "usage: law_worker TRANSPORT LAW [--rank R] [--size P] ...\n");
    return 2;
  }
  bool holds = true;
  const bool understood = report([&] {
    const laws::Law& law = laws::find(words[2]);
    const Flags flags = parse_flags(words.subspan(3));
    const transport::BackendOptions options = join_options(words[1], law, flags);
    const auto repeat = flags.find("--repeat");
    const int times = repeat == flags.end() ? 1 : integer("--repeat", repeat->second);
    for (int i = 0; i < times; ++i) {
      holds &= report([&] { run_workers(words[1], options, law.check); });
    }
  });
  return understood && holds ? 0 : 1;
}

}  // namespace
}  // namespace thinwire

int main(int argc, char** argv) {
  return thinwire::run(std::span(argv, static_cast<std::size_t>(argc)));
}
