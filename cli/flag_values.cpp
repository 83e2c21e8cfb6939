#include "cli/flag_values.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/number.h"
#include "base/spec.h"
#include "thinwire/error.h"
#include "thinwire/strategy.h"

namespace thinwire::cli {
namespace {

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 40;

template <class Number>
CLI::Validator within(std::string_view kind, Number lowest, Number highest) {
  const auto check = [=](const std::string& text) -> std::string {
    const auto value = base::parse_number<Number>(text);
    if (value && *value >= lowest && *value <= highest) return {};
    return fmt::format("'{}' is not a {} of {} ... {}", text, kind, lowest, highest);
  };
  return {check, ""};  // no word of its own in the help
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const auto end = text.find(separator);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::size_t parse_one_numel(std::string_view text, std::string_view whole) {
  std::string_view digits = text;
  std::uint64_t unit = 1;
  if (text.ends_with('k')) unit = 1'000;
  if (text.ends_with('M')) unit = 1'000'000;
  if (unit > 1) digits.remove_suffix(1);
  const auto value = base::parse_number<std::uint64_t>(digits);
  if (!value || *value == 0 || *value > kMostElements / unit) {
    throw ConfigError(fmt::format(
        "--numel {}: '{}' is not a number of floats; examples: 1000  100k,25M", whole, text));
  }
  return *value * unit;
}

}  // namespace

CLI::Validator whole_number(std::uint64_t lowest, std::uint64_t highest) {
  return within("whole number", lowest, highest);
}

CLI::Validator number(double lowest, double highest) { return within("number", lowest, highest); }

std::size_t parse_numel(std::string_view text) { return parse_one_numel(text, text); }

std::vector<std::size_t> parse_numels(std::string_view text) {
  std::vector<std::size_t> out;
  for (const std::string_view word : split(text, ',')) out.push_back(parse_one_numel(word, text));
  return out;
}

std::vector<int> parse_worker_counts(std::string_view text, int highest) {
  std::vector<int> out;
  for (const std::string_view word : split(text, ',')) {
    const auto value = base::parse_number<int>(word);
    if (!value || *value < 1 || *value > highest) {
      throw ConfigError(
          fmt::format("--workers {}: '{}' is not a number of workers of 1 ... {}; example: 4,8,16",
                      text, word, highest));
    }
    if (std::ranges::find(out, *value) == out.end()) out.push_back(*value);
  }
  return out;
}

std::vector<std::string> parse_strategies(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string_view part : split(text, ';')) {
    const std::string_view word = trimmed(part);
    if (word.empty()) continue;
    const std::string spec = base::Spec::parse(word).str();
    make_strategy(spec);
    if (std::ranges::find(out, spec) != out.end()) {
      throw ConfigError(fmt::format("--strategies: '{}' is there twice", spec));
    }
    out.push_back(spec);
  }
  if (out.empty()) {
    throw ConfigError("--strategies: at least one is needed, such as \"gtopk; qsgd:bits=2\"");
  }
  return out;
}

}  // namespace thinwire::cli
