#include "report/comparison_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/writable.h"
#include "thinwire/error.h"

namespace thinwire::report {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::string_view kNote = "compare.json";
constexpr const char* kSummaryFile = "summary.json";

std::string value_of(const Setting& setting, std::string_view name) {
  const auto found = std::ranges::find(setting, name, [](const auto& s) { return s.first; });
  return found == setting.end() ? std::string() : found->second;
}

Json to_json(const Setting& setting) {
  Json out = Json::object();
  for (const auto& [name, value] : setting) out[name] = value;
  return out;
}

// FNV-1a, because names have to differ but need no protection against forgery.
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
  try {
    base::make_writable_directory(directory_.string());
  } catch (const ConfigError& refusal) {
    throw ConfigError(fmt::format("--out {}", refusal.what()));
  }
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
        found != earlier.end() && found->is_string() ? found->get<std::string>() : "not recorded";
    if (before == value) continue;
    throw ConfigError(
        fmt::format("--out {}: it holds another comparison, with {} {} instead of {}; choose "
                    "another directory, or leave --out out",
                    directory_.string(), name, before, value));
  }
}

// Replaces the colon of a spec by a comma. Names of strategies contain none, so the result is
// unique.
fs::path ComparisonStore::run_directory(const std::string& strategy) const {
  std::string name = strategy;
  std::ranges::replace(name, ':', ',');
  return directory_ / name;
}

std::vector<ComparedRun> ComparisonStore::finished_runs() const {
  std::vector<fs::path> directories;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    if (entry.is_directory()) directories.push_back(entry.path());
  }
  std::ranges::sort(directories);
  std::vector<ComparedRun> out;
  for (const fs::path& each : directories) {
    std::ifstream in(each / kSummaryFile);
    const Json summary = Json::parse(in, nullptr, /*allow_exceptions=*/false);
    if (!summary.is_object() || !summary.value("strategy", Json()).is_string()) continue;
    const std::string strategy = summary["strategy"];
    if (run_directory(strategy) != each) continue;  // a copy of another run
    if (auto run = finished_run(strategy)) out.push_back(std::move(*run));
  }
  return out;
}

void ComparisonStore::set_aside(const std::string& strategy) const {
  const fs::path directory = run_directory(strategy);
  if (!fs::exists(directory / kSummaryFile)) return;
  for (const auto& [name, aside] : {std::pair("checkpoints", "checkpoints-failed"),
                                    std::pair(kSummaryFile, "summary-failed.json")}) {
    fs::remove_all(directory / aside);
    if (fs::exists(directory / name)) fs::rename(directory / name, directory / aside);
  }
}

void ComparisonStore::begin_run(const std::string& strategy, Attempt attempt) const {
  if (attempt == Attempt::from_start) fs::remove(run_directory(strategy) / kWarningsFile);
}

void ComparisonStore::add_warnings(const std::string& strategy,
                                   const std::vector<std::string>& warnings) const {
  std::string text;
  for (std::string warning : warnings) {
    std::ranges::replace(warning, '\n', ' ');  // the file has a line per warning
    text += warning + '\n';
  }
  if (!text.empty()) std::ofstream(run_directory(strategy) / kWarningsFile, std::ios::app) << text;
}

void ComparisonStore::write(std::string_view name, std::string_view text) const {
  const fs::path file = directory_ / name, unfinished = directory_ / fmt::format(".{}", name);
  std::ofstream out(unfinished, std::ios::binary);
  out << text << std::flush;
  std::error_code error;
  if (out) fs::rename(unfinished, file, error);
  if (out && !error) return;
  if (!error) error.assign(errno, std::generic_category());
  throw Error(fmt::format("{}: it cannot be written ({})", file.string(), error.message()));
}

}  // namespace thinwire::report
