#include "trainer/data/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

namespace thinwire::trainer {
namespace {

constexpr std::uint32_t kBytesFollow = 0x0800;  // the element type, above the number of dimensions
constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();

std::uint32_t read_word(DataFile& file) {
  std::array<std::uint8_t, 4> bytes;
  file.read(bytes);
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

// Returns the product, or the largest number if the product overflows.
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > kMost / b ? kMost : a * b;
}

}  // namespace

std::vector<std::uint32_t> read_idx_extents(DataFile& file, std::size_t dimensions) {
  const std::uint64_t header_bytes = 4 + 4 * dimensions;
  if (file.size() < header_bytes) {
    file.refuse(fmt::format("is damaged: it has {} bytes, its header alone takes {}", file.size(),
                            header_bytes));
  }
  const std::uint32_t magic = read_word(file);
  const std::uint32_t expected = kBytesFollow | static_cast<std::uint32_t>(dimensions);
  if (magic != expected) {
    file.refuse(
        fmt::format("is not an idx file of bytes with {} dimensions: it starts with "
                    "{:#010x}, not {:#010x}",
                    dimensions, magic, expected));
  }
  std::vector<std::uint32_t> extents;
  std::uint64_t count = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    extents.push_back(read_word(file));
    count = times(count, extents.back());
  }
  if (count == 0) file.refuse("holds nothing (its header has an extent of 0)");
  if (file.size() - header_bytes != count) {
    file.refuse(
        fmt::format("is damaged: it has {} bytes, but its header promises {} values, "
                    "{} bytes in all",
                    file.size(), fmt::join(extents, " x "),
                    header_bytes + std::min(count, kMost - header_bytes)));
  }
  return extents;
}

std::vector<std::uint8_t> read_idx_values(DataFile& file) {
  file.expect_room(file.left());
  std::vector<std::uint8_t> values(static_cast<std::size_t>(file.left()));
  file.read(values);
  return values;
}

}  // namespace thinwire::trainer
