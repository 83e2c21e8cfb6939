#include <algorithm>

#include "base/spec.h"
#include "thinwire/error.h"
#include "trainer/data/dataset.h"

namespace thinwire::trainer {

#define TW_DATA(word, help) DataPair load_##word(const std::string& argument, std::uint64_t seed);
#include "trainer/data/list.inc"
#undef TW_DATA

namespace {
#define TW_DATA(word, help) DataSource{#word, help, load_##word},
constexpr DataSource kSources[] = {
#include "trainer/data/list.inc"
};
#undef TW_DATA
}  // namespace

std::span<const DataSource> data_sources() { return kSources; }

DataPair load_data(std::string_view spec, std::uint64_t seed) {
  const auto colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const auto found = std::find_if(std::begin(kSources), std::end(kSources),
                                  [&](const DataSource& source) { return source.name == name; });
  if (found == std::end(kSources)) {
    std::vector<std::string> known;
    for (const DataSource& source : kSources) known.emplace_back(source.name);
    throw ConfigError(base::unknown_name("data", name, known));
  }
  const bool argument = colon != std::string_view::npos;
  return found->load(std::string(argument ? spec.substr(colon + 1) : std::string_view{}), seed);
}

}  // namespace thinwire::trainer
