#include "base/spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/number.h"
#include "base/text.h"
#include "thinwire/error.h"

namespace thinwire::base {
namespace {

// Converts ASCII letters only; the functions of <cctype> depend on the locale.
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// Returns how many edits (insert, remove, replace) turn one word into the other. Case is ignored.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row.back();
}

// Returns the hint for a word that is not among the known ones.
std::string known_words(std::string_view word, std::span<const std::string> known) {
  if (known.empty()) return "there are none";
  const std::string near = closest_match(word, known);
  return fmt::format("{}known are {}", near.empty() ? "" : "did you mean " + near + "? ",
                     fmt::join(known, ", "));
}

}  // namespace

Spec Spec::parse(std::string_view text) {
  const auto malformed = [&](std::string_view reason) {
    return ConfigError(fmt::format("'{}': {}; the form is name or name:key=value,key=value",
                                   visible(text), visible(reason)));
  };
  Spec spec;
  const auto colon = text.find(':');
  spec.name_ = text.substr(0, colon);
  if (!is_word(spec.name_)) throw malformed(fmt::format("'{}' is not a name", spec.name_));
  if (colon == std::string_view::npos) return spec;

  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    const auto equals = pair.find('=');
    const std::string_view key = pair.substr(0, equals);
    if (!is_word(key)) throw malformed(fmt::format("'{}' does not start with a key", pair));
    if (equals == std::string_view::npos || equals + 1 == pair.size()) {
      throw malformed(fmt::format("key '{}' has no value", key));
    }
    if (!spec.values_.emplace(key, pair.substr(equals + 1)).second) {
      throw malformed(fmt::format("key '{}' appears twice", key));
    }
    if (pair.size() == rest.size()) return spec;
    rest.remove_prefix(pair.size() + 1);
  }
}

const std::string* Spec::find(std::string_view key, std::string fallback, std::string allowed) {
  const bool known =
      std::any_of(keys_.begin(), keys_.end(), [&](const SpecKey& k) { return k.name == key; });
  if (!known) keys_.push_back({std::string(key), std::move(fallback), std::move(allowed)});
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void Spec::refuse(std::string_view key, std::string_view value, std::string_view hint) const {
  throw ConfigError(
      fmt::format("{}: {} is not allowed ({}); {}", name_, key, visible(value), hint));
}

double Spec::number(std::string_view key, double fallback, double lowest, double highest) {
  const std::string allowed = fmt::format("{} ... {}", lowest, highest);
  const std::string* text = find(key, fmt::format("{}", fallback), allowed);
  if (text == nullptr) return fallback;
  const auto value = parse_number<double>(*text);
  if (!value || !std::isfinite(*value)) refuse(key, *text, "use a number, " + allowed);
  if (*value < lowest || *value > highest) refuse(key, *text, "use " + allowed);
  return *value;
}

std::int64_t Spec::integer(std::string_view key, std::int64_t fallback, std::int64_t lowest,
                           std::int64_t highest) {
  const std::string allowed = fmt::format("{} ... {}", lowest, highest);
  const std::string* text = find(key, fmt::format("{}", fallback), allowed);
  if (text == nullptr) return fallback;
  const auto value = parse_number<std::int64_t>(*text);
  if (!value) refuse(key, *text, "use a whole number, " + allowed);
  if (*value < lowest || *value > highest) refuse(key, *text, "use " + allowed);
  return *value;
}

template <class T>
std::optional<T> Spec::parse_or_auto(std::string_view key, T lowest, T highest) {
  const std::string allowed = fmt::format("auto, or {} ... {}", lowest, highest);
  const std::string* text = find(key, "auto", allowed);
  if (text == nullptr || *text == "auto") return std::nullopt;
  const auto value = parse_number<T>(*text);
  // Written so that a value that is not a number is refused, too.
  const bool in_range = value && *value >= lowest && *value <= highest;
  if (!in_range) refuse(key, *text, "use " + allowed);
  return value;
}

std::optional<double> Spec::number_or_auto(std::string_view key, double lowest, double highest) {
  return parse_or_auto(key, lowest, highest);
}

std::optional<std::int64_t> Spec::integer_or_auto(std::string_view key, std::int64_t lowest,
                                                  std::int64_t highest) {
  return parse_or_auto(key, lowest, highest);
}

std::string Spec::choice(std::string_view key, std::span<const std::string_view> choices) {
  const std::string allowed = fmt::format("{}", fmt::join(choices, ", "));
  const std::string* text = find(key, std::string(choices.front()), allowed);
  if (text == nullptr) return std::string(choices.front());
  if (std::find(choices.begin(), choices.end(), *text) == choices.end()) {
    const std::vector<std::string> words(choices.begin(), choices.end());
    const std::string near = closest_match(*text, words);
    refuse(key, *text, (near.empty() ? "" : "did you mean " + near + "? ") + "use " + allowed);
  }
  return *text;
}

std::string Spec::text(std::string_view key, std::string_view fallback, std::string_view allowed) {
  const std::string* given = find(key, std::string(fallback), std::string(allowed));
  return given == nullptr ? std::string(fallback) : *given;
}

void Spec::reject_unused() const {
  std::vector<std::string> known;
  for (const SpecKey& key : keys_) known.push_back(key.name);
  for (const auto& [key, value] : values_) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw ConfigError(unknown_key(name_, key, known));
    }
  }
}

std::string Spec::str() const {
  std::string out = name_;
  char separator = ':';
  for (const auto& [key, value] : values_) {
    out += fmt::format("{}{}={}", separator, key, value);
    separator = ',';
  }
  return out;
}

std::string closest_match(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 2);
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    // A candidate that takes as many edits as it has letters is not suggested.
    if (distance <= best_distance && distance < candidate.size()) {
      if (best.empty() || distance < best_distance) best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string unknown_name(std::string_view kind, std::string_view name,
                         std::span<const std::string> known) {
  return fmt::format("{}: unknown name ({}); {}", kind, visible(name), known_words(name, known));
}

std::string unknown_key(std::string_view object, std::string_view key,
                        std::span<const std::string> known) {
  return fmt::format("{}: unknown key ({}); {}", object, visible(key), known_words(key, known));
}

}  // namespace thinwire::base
