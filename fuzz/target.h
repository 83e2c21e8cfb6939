// A fuzz target is a function that takes any bytes and must return.
#pragma once

#include <cstdlib>
#include <string_view>

#include "base/bytes.h"
#include "thinwire/error.h"
#include "thinwire/types.h"

namespace thinwire::fuzz {

#define TW_FUZZ(word, help) void word(Bytes input);
#include "fuzz/list.inc"
#undef TW_FUZZ

// Foreign input may be refused with one of these errors, and with no other.
template <class... Refusal, class Action>
void accept_or_refuse(Action action) {
  try {
    action();
  } catch (const Error& error) {
    if (!(... || (dynamic_cast<const Refusal*>(&error) != nullptr))) throw;
  }
}

// Aborts unless a condition holds that is required after an input was accepted.
inline void demand(bool holds) {
  if (!holds) std::abort();
}

// Reads values from the input. After its end it returns zeros, so that the fuzzer finds short
// inputs easily.
class Choices {
 public:
  explicit Choices(Bytes input) : rest_(input) {}

  template <base::WireNumber T>
  T take() {
    T value{};
    const std::size_t bytes = std::min(sizeof value, rest_.size());
    if (bytes > 0) std::memcpy(&value, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
    return value;
  }
  // Returns a number from 0 to count - 1.
  std::size_t below(std::size_t count) { return take<std::uint16_t>() % count; }

  Bytes rest() const noexcept { return rest_; }
  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(rest_.data()), rest_.size()};
  }

 private:
  Bytes rest_;
};

}  // namespace thinwire::fuzz
