#include "cli/comparison_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/io.h"
#include "thinwire/error.h"

namespace thinwire::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::string_view kNote = "compare.json";

std::string value_of(const Setting& setting, std::string_view name) {
  const auto found = std::ranges::find(setting, name, [](const auto& s) { return s.first; });
  return found == setting.end() ? std::string() : found->second;
}

Json to_json(const Setting& setting) {
  Json out = Json::object();
  for (const auto& [name, value] : setting) out[name] = value;
  return out;
}

// FNV-1a: the name has to differ, not to withstand anybody.
std::uint32_t hash(std::string_view text) {
  std::uint32_t state = 2166136261u;
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 16777619u;
  return state;
}

}  // namespace

ComparisonStore::ComparisonStore(fs::path directory, const Setting& setting)
    : directory_(std::move(directory)) {
  const auto refuse = [&](std::string_view what, const std::error_code& why) {
    throw ConfigError(fmt::format("--out {}: the directory cannot be {} ({})", directory_.string(),
                                  what, why.message()));
  };
  std::error_code error, unreachable;
  fs::create_directories(directory_, error);
  if (!fs::is_directory(directory_, unreachable)) refuse("made", error ? error : unreachable);
  const bool empty = fs::is_empty(directory_, error);
  if (error) refuse("read", error);
  if (std::ifstream note(directory_ / kNote); note) {
    compare_with({std::istreambuf_iterator<char>(note), {}}, setting);
  } else if (!empty) {
    throw ConfigError(
        fmt::format("--out {}: it holds files that are not of a comparison (no {}); choose a new "
                    "or an empty directory",
                    directory_.string(), kNote));
  } else {
    write(kNote, to_json(setting).dump(2) + "\n");
  }
}

std::string ComparisonStore::default_name(const Setting& setting) {
  const std::string data = value_of(setting, "data");
  return fmt::format("compare-{}-{}-{:08x}", value_of(setting, "model"),
                     data.substr(0, data.find(':')), hash(to_json(setting).dump()));
}

void ComparisonStore::compare_with(const std::string& note, const Setting& setting) const {
  const Json earlier = Json::parse(note, nullptr, /*allow_exceptions=*/false);
  if (!earlier.is_object()) {
    throw ConfigError(fmt::format("--out {}: its {} is damaged; choose another directory",
                                  directory_.string(), kNote));
  }
  for (const auto& [name, value] : setting) {
    const auto found = earlier.find(name);
    const std::string before =
        found != earlier.end() && found->is_string() ? found->get<std::string>() : "not told";
    if (before == value) continue;
    throw ConfigError(
        fmt::format("--out {}: it holds another comparison, with {} {} instead of {}; choose "
                    "another directory, or leave --out out",
                    directory_.string(), name, before, value));
  }
}

// A spec with its colon made a comma: a name cannot contain one, so no two specs meet.
fs::path ComparisonStore::run_directory(const std::string& strategy) const {
  std::string name = strategy;
  std::ranges::replace(name, ':', ',');
  return directory_ / name;
}

void ComparisonStore::write_warnings(const std::string& strategy,
                                     const std::vector<std::string>& messages) const {
  constexpr std::size_t kKept = 2;  // the first ones say why; a run that diverges goes on and on
  std::ofstream out(run_directory(strategy) / kWarningsFile);
  std::size_t count = 0;
  for (std::string_view text : messages) {
    if (!text.starts_with(kErrorPrefix)) continue;
    if (++count <= kKept) out << text.substr(kErrorPrefix.size()) << '\n';
  }
  if (count > kKept) out << fmt::format("{} more like these\n", count - kKept);
}

void ComparisonStore::write(std::string_view name, std::string_view text) const {
  const fs::path file = directory_ / name, unfinished = directory_ / fmt::format(".{}", name);
  std::ofstream out(unfinished, std::ios::binary);
  out << text << std::flush;
  std::error_code error;
  if (out) fs::rename(unfinished, file, error);
  if (!out || error) throw Error(fmt::format("cannot write {}", file.string()));
}

}  // namespace thinwire::cli
