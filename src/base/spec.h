// The text by which a user chooses a part and its options: "gtopk:density=0.001,values=fp32".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/types.h"

namespace thinwire::base {

// A name and key=value pairs. Factories read their keys through the accessors below, which check
// the value and record the key, so that one call parses, validates and documents it.
class Spec {
 public:
  // Throws ConfigError unless the text has the form name or name:key=value,key=value.
  static Spec parse(std::string_view text);

  const std::string& name() const noexcept { return name_; }

  // Return the value of the key, or `fallback` if it is not given. Throw ConfigError if the value
  // is not a number or not in [lowest, highest].
  double number(std::string_view key, double fallback, double lowest, double highest);
  std::int64_t integer(std::string_view key, std::int64_t fallback, std::int64_t lowest,
                       std::int64_t highest);
  // Return the value of the key, or nothing if it is `auto`, which is the default. Throw
  // ConfigError if the value is neither `auto` nor a number in [lowest, highest].
  std::optional<double> number_or_auto(std::string_view key, double lowest, double highest);
  std::optional<std::int64_t> integer_or_auto(std::string_view key, std::int64_t lowest,
                                              std::int64_t highest);
  // Returns the value of the key; the first choice is the default. Throws ConfigError if the value
  // is not one of the choices.
  std::string choice(std::string_view key, std::span<const std::string_view> choices);
  // Returns the value of the key without a check; `allowed` describes it to users.
  std::string text(std::string_view key, std::string_view fallback, std::string_view allowed);

  // Throws ConfigError if the text has a key that no accessor has read; the message names the
  // closest known key.
  void reject_unused() const;

  // Returns the keys that accessors have read so far, in that order.
  const std::vector<SpecKey>& keys() const noexcept { return keys_; }
  // Returns the spec as text, with the keys sorted.
  std::string str() const;

 private:
  const std::string* find(std::string_view key, std::string fallback, std::string allowed);
  template <class T>
  std::optional<T> parse_or_auto(std::string_view key, T lowest, T highest);
  [[noreturn]] void refuse(std::string_view key, std::string_view value,
                           std::string_view hint) const;

  std::string name_;
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<SpecKey> keys_;
};

// Returns the candidate that is most similar to a mistyped word; empty if none is similar.
std::string closest_match(std::string_view word, std::span<const std::string> candidates);

// Returns a message such as "strategy: unknown name (gtopc); did you mean gtopk? known are dense,
// gtopk".
std::string unknown_name(std::string_view kind, std::string_view name,
                         std::span<const std::string> known);
// Returns the same for a key of an object: "gtopk: unknown key (densty); ...".
std::string unknown_key(std::string_view object, std::string_view key,
                        std::span<const std::string> known);

}  // namespace thinwire::base
