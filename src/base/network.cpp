#include "thinwire/types.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "base/number.h"
#include "base/text.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

struct Unit {
  std::string_view name;
  int exponent;  // of 10
};
constexpr Unit kRates[] = {{"gbit", 9}, {"mbit", 6}, {"kbit", 3}};
constexpr Unit kTimes[] = {{"ms", -3}, {"us", -6}, {"s", 0}};

// Values beyond these bounds are refused: times would not fit into a clock, or a message would
// never arrive.
constexpr double kSlowest = 1e3, kFastest = 1e15;  // bit/s
constexpr double kLongest = 1e3;                   // s

// Returns the value of a plain decimal number with a unit, or NaN if the text is anything else.
double quantity(std::string_view text, std::span<const Unit> units) {
  const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
  for (const Unit& unit : units) {
    if (text.substr(digits) != unit.name) continue;
    // The exponent is appended as text, so that 0.7ms becomes the double that is nearest to 0.0007.
    const std::string scaled = fmt::format("{}e{}", text.substr(0, digits), unit.exponent);
    return base::parse_number<double>(scaled).value_or(NAN);
  }
  return NAN;
}

// Returns the shortest text that is read back as the same value.
std::string shortest(double value, const Unit& unit) {
  const long double scaled = value / std::pow(10.0L, unit.exponent);
  std::string text;
  for (int decimals = 0; decimals <= 20; ++decimals) {
    char digits[64];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), scaled,
                                   std::chars_format::fixed, decimals);
    text = std::string(digits, end.ptr).append(unit.name);
    if (quantity(text, {&unit, 1}) == value) break;
  }
  return text;
}

}  // namespace

Network Network::parse(std::string_view text) {
  const auto refuse = [&](std::string_view reason) {
    return ConfigError(
        fmt::format("network '{}': {}; examples: 1gbit,0.2ms  100mbit  unlimited,30ms",
                    base::visible(text), base::visible(reason)));
  };
  const auto comma = text.find(',');
  const std::string_view rate = text.substr(0, comma);
  Network network;
  if (rate != "unlimited") {
    network.bits_per_second = quantity(rate, kRates);
    if (!(network.bits_per_second >= kSlowest && network.bits_per_second <= kFastest)) {
      throw refuse(fmt::format("'{}' is not a bandwidth of 1kbit ... 1000000gbit", rate));
    }
  }
  if (comma != std::string_view::npos) {
    const std::string_view latency = text.substr(comma + 1);
    network.latency = Seconds(quantity(latency, kTimes));
    if (!(network.latency <= Seconds(kLongest))) {
      throw refuse(fmt::format("'{}' is not a latency of 0us ... 1000s", latency));
    }
  }
  return network;
}

std::string Network::str() const {
  std::string rate = "unlimited";
  if (bits_per_second > 0) {
    const auto fits = [&](const Unit& unit) {
      return bits_per_second >= std::pow(10, unit.exponent);
    };
    const auto* unit = std::find_if(std::begin(kRates), std::end(kRates) - 1, fits);
    rate = shortest(bits_per_second, *unit);
  }
  return fmt::format("{},{}", rate, shortest(latency.count(), kTimes[0]));
}

}  // namespace thinwire
