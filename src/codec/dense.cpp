#include "codec/dense.h"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

#include "codec/seal.h"
#include "thinwire/bytes.h"

namespace thinwire {
namespace {

constexpr std::uint32_t kMagic = 0x4e445754;  // "TWDN"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeadBytes = 32;

template <class... Parts>
[[noreturn]] void refuse(fmt::format_string<Parts...> format, Parts&&... parts) {
  throw WireError("dense message: " + fmt::format(format, std::forward<Parts>(parts)...));
}

}  // namespace

std::size_t dense_bytes(DenseCoding coding, std::size_t numel) {
  if (numel > (std::numeric_limits<std::size_t>::max() - kHeadBytes) / width(coding)) {
    throw std::length_error(fmt::format("dense message: {} elements", numel));
  }
  return kHeadBytes + numel * width(coding);
}

MutBytes open_dense(const DenseContents& contents, Payload& out) {
  const std::size_t begin = out.size();
  const std::size_t bytes = dense_bytes(contents.coding, contents.numel);
  out.reserve(begin + bytes);
  ByteWriter writer(out);
  writer.put(kMagic);
  writer.put(std::uint32_t{0});  // the checksum, once there is something to sum
  writer.put(kVersion);
  writer.put(static_cast<std::uint32_t>(contents.coding));
  writer.put(contents.step);
  writer.put(contents.numel);
  out.resize(begin + bytes);
  return MutBytes(out).subspan(begin + kHeadBytes);
}

void seal_dense(MutBytes elements) {
  seal({elements.data() - kHeadBytes, kHeadBytes + elements.size()});
}

Bytes read_dense(Bytes in, const DenseContents& contents) {
  ByteReader reader(in, "dense message");
  if (reader.get<std::uint32_t>() != kMagic) refuse("does not begin with its magic number");
  const auto sum = reader.get<std::uint32_t>();
  if (const auto version = reader.get<std::uint32_t>(); version != kVersion) {
    refuse("version {}, this program knows {}: run the same version everywhere", version, kVersion);
  }
  const auto coding = reader.get<std::uint32_t>();
  const auto step = reader.get<std::uint64_t>();
  const auto numel = reader.get<std::uint64_t>();
  if (coding != static_cast<std::uint32_t>(contents.coding)) {
    refuse("in another format than was agreed");
  }
  if (step != contents.step) refuse("of step {}, not {}", step, contents.step);
  if (numel != contents.numel) refuse("of {} elements, not {}", numel, contents.numel);
  const Bytes elements = reader.take(numel * width(contents.coding));
  reader.expect_end();
  if (sum != checksum(in)) refuse("damaged on the way: its checksum is wrong");
  return elements;
}

}  // namespace thinwire
