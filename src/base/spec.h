// A part named on the command line: "gtopk:density=0.001,values=fp32".
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/types.h"

namespace thinwire::base {

// Name and key=value pairs. Factories read their keys through the accessors below, which check the
// value and remember the key, so that the same calls parse, validate and document it.
class Spec {
 public:
  // Throws ConfigError if the text has not the form name or name:key=value,key=value.
  static Spec parse(std::string_view text);

  const std::string& name() const noexcept { return name_; }

  double number(std::string_view key, double fallback, double lowest, double highest);
  std::int64_t integer(std::string_view key, std::int64_t fallback, std::int64_t lowest,
                       std::int64_t highest);
  // The first choice is the default.
  std::string choice(std::string_view key, std::span<const std::string_view> choices);
  // Free text; `allowed` only documents it.
  std::string text(std::string_view key, std::string_view fallback, std::string_view allowed);

  // Throws ConfigError if a key was given that no accessor asked for, naming the closest one.
  void reject_unused() const;

  // The keys asked for so far, in order.
  const std::vector<SpecKey>& keys() const noexcept { return keys_; }
  // The text form again, keys sorted.
  std::string str() const;

 private:
  const std::string* find(std::string_view key, std::string fallback, std::string allowed);
  [[noreturn]] void refuse(std::string_view key, std::string_view value,
                           std::string_view reason) const;

  std::string name_;
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<SpecKey> keys_;
};

// The candidate a mistyped word most likely meant; empty if none is near.
std::string closest_match(std::string_view word, std::span<const std::string> candidates);

// "unknown strategy 'gtopc': did you mean 'gtopk'? (known: dense, gtopk)"
std::string unknown_word(std::string_view kind, std::string_view word,
                         std::span<const std::string> known);

}  // namespace thinwire::base
