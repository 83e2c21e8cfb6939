#include "cli/numel.h"

#include <fmt/format.h>

#include "base/number.h"
#include "thinwire/error.h"

namespace thinwire::cli {
namespace {

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 40;

std::size_t parse_one(std::string_view text, std::string_view whole) {
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

std::size_t parse_numel(std::string_view text) { return parse_one(text, text); }

std::vector<std::size_t> parse_numels(std::string_view text) {
  std::vector<std::size_t> out;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    out.push_back(parse_one(rest.substr(0, comma), text));
    if (comma == std::string_view::npos) return out;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace thinwire::cli
