// Lists of parts (strategies, faults) that users choose by name, and how a part is made from its
// Spec.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/spec.h"
#include "thinwire/error.h"

namespace thinwire::base {

template <class Part>
struct Entry {
  std::string_view name;
  std::string_view help;
  // Makes the part. It reads its keys from the spec, which checks each value, and throws
  // ConfigError if two values contradict each other.
  std::unique_ptr<Part> (*make)(Spec& spec);
};

template <class Part, std::size_t kCount>
consteval bool names_are_unique(const Entry<Part> (&entries)[kCount]) {
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (entries[i].name == entries[j].name) return false;
    }
  }
  return true;
}

// Returns the entry of that name. Throws ConfigError if there is none; `kind` is what the message
// calls such a part, for example "strategy".
template <class Part>
const Entry<Part>& find_entry(std::string_view kind, std::span<const Entry<Part>> entries,
                              std::string_view name) {
  const auto found = std::ranges::find(entries, name, &Entry<Part>::name);
  if (found != entries.end()) return *found;
  std::vector<std::string> known;
  for (const Entry<Part>& entry : entries) known.emplace_back(entry.name);
  throw ConfigError(unknown_name(kind, name, known));
}

// Returns the part that `text` names, with all its keys checked. Throws ConfigError.
template <class Part>
std::unique_ptr<Part> make_part(std::string_view kind, std::span<const Entry<Part>> entries,
                                std::string_view text) {
  Spec spec = Spec::parse(text);
  std::unique_ptr<Part> part = find_entry(kind, entries, spec.name()).make(spec);
  spec.reject_unused();
  return part;
}

// Returns the keys of a part with their defaults. It makes a part to find them, because only the
// factory knows its keys.
template <class Part>
std::vector<SpecKey> keys_of(const Entry<Part>& entry) {
  Spec spec = Spec::parse(entry.name);
  entry.make(spec);
  return spec.keys();
}

}  // namespace thinwire::base
