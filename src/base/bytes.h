// Writes and reads numbers in little-endian order. All bytes that come from outside this process
// are read by ByteReader, which checks every bound.
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "thinwire/error.h"
#include "thinwire/types.h"

namespace thinwire::base {

static_assert(std::endian::native == std::endian::little, "thinwire's wire order is little-endian");

// The number types that have the same size on every machine. bool is not one of them, because a
// byte from outside may be neither true nor false.
template <class T>
concept WireNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8;

class ByteWriter {
 public:
  explicit ByteWriter(Payload& out) : out_(out) {}

  template <WireNumber T>
  void put(T value) {
    put(std::as_bytes(std::span(&value, 1)));
  }
  void put(Bytes bytes);
  // Appends the length (u32) and the characters. Throws std::length_error if the length does not
  // fit.
  void put_text(std::string_view text);

 private:
  Payload& out_;
};

// Reads values from the front of `in`. A call that would read past the end throws WireError, which
// names `what` and the offset. Neither argument is copied; both must outlive the reader.
class ByteReader {
 public:
  ByteReader(Bytes in, std::string_view what) : in_(in), what_(what) {}

  template <WireNumber T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  Bytes take(std::size_t bytes);
  // Throws WireError if the text is longer than `longest` characters.
  std::string get_text(std::size_t longest);

  std::size_t left() const noexcept { return in_.size() - at_; }
  // Throws WireError if bytes remain: a message that is longer than its contents has another
  // format.
  void expect_end() const;

 private:
  Bytes in_;
  std::string_view what_;
  std::size_t at_ = 0;
};

}  // namespace thinwire::base
