#include "base/bytes.h"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

namespace thinwire::base {

void ByteWriter::put(Bytes bytes) {
  if (bytes.empty()) return;
  const std::size_t end = out_.size();
  out_.resize(end + bytes.size());
  std::memcpy(out_.data() + end, bytes.data(), bytes.size());
}

void ByteWriter::put_text(std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw std::length_error("ByteWriter: text too long (more than 4 GiB)");
  }
  put(static_cast<std::uint32_t>(text.size()));
  put(std::as_bytes(std::span(text)));
}

Bytes ByteReader::take(std::size_t bytes) {
  if (bytes > left()) {
    throw WireError(fmt::format("{}: truncated at byte {} ({} bytes needed, {} left)", what_, at_,
                                bytes, left()));
  }
  const Bytes taken = in_.subspan(at_, bytes);
  at_ += bytes;
  return taken;
}

std::string ByteReader::get_text(std::size_t longest) {
  const auto length = get<std::uint32_t>();
  if (length > longest) {
    throw WireError(fmt::format("{}: text at byte {} is too long ({} bytes; at most {})", what_,
                                at_ - sizeof length, length, longest));
  }
  const Bytes raw = take(length);
  return {reinterpret_cast<const char*>(raw.data()), raw.size()};
}

void ByteReader::expect_end() const {
  if (left() != 0) {
    throw WireError(
        fmt::format("{}: unexpected bytes after byte {} ({} bytes)", what_, at_, left()));
  }
}

}  // namespace thinwire::base
