// The checks that messages with a header have in common. The header begins with a magic number, the
// checksum and the version.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "message/checksum.h"
#include "thinwire/error.h"

namespace thinwire::message {

// Refuses messages of one format.
struct HeaderCheck {
  std::string_view format;  // the object that errors name
  std::uint32_t magic = 0;
  std::uint8_t version = 0;

  // Throws WireError: the format, and the problem.
  template <class... Parts>
  [[noreturn]] void refuse(fmt::format_string<Parts...> problem, Parts&&... parts) const {
    throw WireError(
        fmt::format("{}: {}", format, fmt::format(problem, std::forward<Parts>(parts)...)));
  }

  // Reads magic number, checksum and version. Returns the checksum; throws WireError if the message
  // is not of this format and version.
  std::uint32_t begin(base::ByteReader& reader) const {
    if (reader.get<std::uint32_t>() != magic) refuse("it does not begin with its magic number");
    const auto sum = reader.get<std::uint32_t>();
    if (const int theirs = reader.get<std::uint8_t>(); theirs != version) {
      refuse("version {} is not known ({} is); run the same version of thinwire on all ranks",
             theirs, version);
    }
    return sum;
  }

  // Throws WireError unless the message has that length and checksum.
  void check_whole(Bytes message, std::uint64_t bytes, std::uint32_t sum) const {
    if (message.size() != bytes) {
      refuse("it is {} bytes long, but its header says {}", message.size(), bytes);
    }
    if (sum != checksum(message)) refuse("its checksum is wrong; it was damaged on the way");
  }
};

}  // namespace thinwire::message
