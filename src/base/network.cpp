#include "thinwire/network.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>

#include "thinwire/error.h"

namespace thinwire {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kRates[] = {{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}};
constexpr Unit kTimes[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

// A number of at least 0 with a unit; NaN if the text is anything else.
double quantity(std::string_view text, std::span<const Unit> units) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !(value >= 0) || !std::isfinite(value)) return NAN;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& known : units) {
    if (unit == known.name) return value * known.factor;
  }
  return NAN;
}

}  // namespace

Network Network::parse(std::string_view text) {
  const auto refuse = [&](std::string_view reason) {
    return ConfigError(fmt::format(
        "network '{}': {}; examples: 1gbit,0.2ms  100mbit  unlimited,30ms", text, reason));
  };
  const auto comma = text.find(',');
  const std::string_view rate = text.substr(0, comma);
  Network network;
  if (rate != "unlimited") {
    network.bits_per_second = quantity(rate, kRates);
    if (!(network.bits_per_second > 0)) {
      throw refuse(fmt::format("'{}' is not a bandwidth in kbit, mbit or gbit", rate));
    }
  }
  if (comma != std::string_view::npos) {
    const std::string_view latency = text.substr(comma + 1);
    network.latency = Seconds(quantity(latency, kTimes));
    if (std::isnan(network.latency.count())) {
      throw refuse(fmt::format("'{}' is not a latency in us, ms or s", latency));
    }
  }
  return network;
}

std::string Network::str() const {
  std::string out = "unlimited";
  for (const Unit& unit : kRates) {
    if (bits_per_second >= unit.factor || (bits_per_second > 0 && unit.factor == 1e3)) {
      out = fmt::format("{:g}{}", bits_per_second / unit.factor, unit.name);
      break;
    }
  }
  return fmt::format("{},{:g}ms", out, latency.count() * 1e3);
}

}  // namespace thinwire
