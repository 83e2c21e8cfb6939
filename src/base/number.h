// The one parser of numbers in text: flags, environment variables, specs, file names.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace thinwire::base {

// Returns the number that the whole text denotes, as std::from_chars reads it: without spaces and
// without a leading '+', independent of the locale. Returns nothing if the text is anything else or
// if the number does not fit into T. For floating-point types "inf" and "nan" are numbers too, so
// callers compare with bounds.
template <class T>
std::optional<T> parse_number(std::string_view text) noexcept {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

}  // namespace thinwire::base
