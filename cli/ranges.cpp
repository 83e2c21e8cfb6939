#include "cli/ranges.h"

#include <fmt/format.h>

#include "base/number.h"

namespace thinwire::cli {
namespace {

template <class Number>
CLI::Validator within(std::string_view kind, Number lowest, Number highest) {
  const auto check = [=](const std::string& text) -> std::string {
    const auto value = base::parse_number<Number>(text);
    if (value && *value >= lowest && *value <= highest) return {};
    return fmt::format("'{}' is not a {} of {} ... {}", text, kind, lowest, highest);
  };
  return {check, ""};  // no word of its own in the help
}

}  // namespace

CLI::Validator whole_number(std::uint64_t lowest, std::uint64_t highest) {
  return within("whole number", lowest, highest);
}

CLI::Validator number(double lowest, double highest) { return within("number", lowest, highest); }

}  // namespace thinwire::cli
