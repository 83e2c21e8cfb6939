#include "session/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "session/error_fields.h"
#include "thinwire/collective.h"
#include "thinwire/error.h"

namespace thinwire::session {
namespace {

constexpr std::size_t kLongestText = 1 << 16;
constexpr std::size_t kMostBytes = 1 << 20;  // of the values of one rank
constexpr std::size_t kMostShown = 4;        // different values of one name in an error

using Values = std::map<std::string, std::string>;

// In the order of the names, so that equal values have equal bytes.
Payload encode(const Values& values) {
  Payload out;
  base::ByteWriter writer(out);
  for (const auto& [name, value] : values) {
    writer.put_text(name);
    writer.put_text(value);
  }
  return out;
}

Values decode(Bytes message) {
  Values out;
  base::ByteReader reader(message, "the options of a rank");
  while (reader.left() > 0) {
    std::string name = reader.get_text(kLongestText);
    out[std::move(name)] = reader.get_text(kLongestText);
  }
  return out;
}

// Returns the values of all ranks, by rank.
std::vector<Values> gather(Transport& wire, const Payload& mine) {
  const auto size = static_cast<std::size_t>(wire.size());
  Payload all;
  std::vector<std::uint64_t> lengths(size);
  allgather(wire, mine, all, lengths, kMostBytes);
  std::vector<Values> out;
  std::size_t begin = 0;
  for (const std::uint64_t length : lengths) {
    out.push_back(decode(Bytes(all).subspan(begin, length)));
    begin += length;
  }
  return out;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

// Returns "seed: '1' on ranks 0, 2 and '7' on rank 1", or nothing if all ranks have the same value.
std::optional<std::string> difference(const std::string& name, const std::vector<Values>& all) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;  // of ranks with the same value
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto found = all[rank].find(name);
    const std::string value =
        found == all[rank].end() ? "none" : fmt::format("'{}'", found->second);
    auto group = std::ranges::find(groups, value, &decltype(groups)::value_type::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {value, {}});
    group->second.push_back(static_cast<int>(rank));
  }
  if (groups.size() == 1) return std::nullopt;
  std::vector<std::string> texts;
  for (const auto& [value, ranks] : groups) {
    if (texts.size() == kMostShown) {
      texts.push_back(fmt::format("{} other values", groups.size() - kMostShown));
      break;
    }
    texts.push_back(fmt::format("{} on {}", value, ranks_text(ranks)));
  }
  return fmt::format("{}: {}", name, fmt::join(texts, " and "));
}

[[noreturn]] void refuse(const Transport& wire, std::span<const NamedValue> mine,
                         const std::vector<Values>& all) {
  // In this rank's order, then the names that only other ranks know.
  std::vector<std::string> names;
  for (const NamedValue& each : mine) names.push_back(each.name);
  for (const Values& values : all) {
    for (const auto& [name, value] : values) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  std::vector<std::string> differences;
  for (const std::string& name : names) {
    if (auto text = difference(name, all)) differences.push_back(std::move(*text));
  }
  const auto other = std::ranges::find_if(all, [&](const Values& v) { return v != all[0]; });
  throw ConfigError(
      fmt::format("session: ranks differ ({}); start all ranks with the same program and options "
                  "(this is rank {})",
                  fmt::join(differences, "; "), wire.rank()),
      error_fields(wire, "begin", static_cast<int>(other - all.begin()), Remedy::match_options));
}

}  // namespace

void require_agreement(Transport& wire, std::span<const NamedValue> mine) {
  Values values;
  for (const NamedValue& each : mine) values[each.name] = each.value;
  const Payload message = encode(values);
  const std::uint64_t hash = base::hash64(message);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(wire.size()));
  allgather(wire, std::as_bytes(std::span(&hash, 1)), std::as_writable_bytes(std::span(hashes)));
  const bool agree = std::ranges::all_of(hashes, [&](std::uint64_t h) { return h == hash; });
  if (!agree) refuse(wire, mine, gather(wire, message));
}

}  // namespace thinwire::session
