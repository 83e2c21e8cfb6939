#include "base/duration.h"

#include <fmt/format.h>

#include "base/number.h"
#include "thinwire/error.h"

namespace thinwire::base {

Seconds parse_duration(std::string_view name, std::string_view text) {
  constexpr struct {
    std::string_view suffix;
    double seconds;
  } kUnits[] = {{"ms", 1e-3}, {"us", 1e-6}, {"s", 1}};
  constexpr double kLongest = 1e5;
  std::string_view digits = text;
  double unit = 1;
  for (const auto& each : kUnits) {
    if (!text.ends_with(each.suffix)) continue;
    digits.remove_suffix(each.suffix.size());
    unit = each.seconds;
    break;
  }
  const auto value = parse_number<double>(digits);
  if (!value || !(*value > 0) || !(*value * unit <= kLongest)) {
    throw ConfigError(fmt::format(
        "{} '{}': a time of more than 0 is needed; examples: 350ms  0.35s", name, text));
  }
  return Seconds(*value * unit);
}

}  // namespace thinwire::base
